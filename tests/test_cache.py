"""Pictures are decoded once, in any number of processes, and a changed source is noticed."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dmn4.data import cache, entries
from dmn4.data.cache import cache_folder, cached_bytes, clear, decoded, decoded_folder
from dmn4.data.folders import ImageSet, read_folder
from dmn4.errors import InputError
from dmn4.images import read_image, resize_image


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Two classes of six random pictures of 30 x 20."""
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def reads(monkeypatch):
    """The pictures that were read so far."""
    seen = []

    def read(source):
        seen.append(source)
        return read_image(source)

    monkeypatch.setattr(cache, "read_image", read)
    return seen


@pytest.mark.parametrize("keep", [True, False])
def test_every_picture_is_decoded_and_scaled_as_one_would_by_hand(photos, keep):
    images = read_folder(photos)
    stored = decoded(images, 16, cache=keep)
    assert stored.images.shape == (12, 16, 16, 3)
    assert isinstance(stored.images, np.memmap) == keep
    assert stored.classes == images.classes
    assert np.array_equal(stored.labels, images.labels)
    for path, pixels in zip(images.images, stored.images, strict=True):
        assert np.array_equal(pixels, resize_image(read_image(path), 16))


def test_the_map_cannot_be_written(photos):
    with pytest.raises(ValueError, match="read-only"):
        decoded(read_folder(photos), 16).images[0] = 0


def test_the_fingerprint_does_not_depend_on_the_size(photos):
    images = read_folder(photos)
    prints = {images.fingerprint, decoded(images, 16).fingerprint, decoded(images, (8, 12), cache=False).fingerprint}
    assert len(prints) == 1


def test_a_second_call_reads_no_picture(photos, reads):
    first = decoded(read_folder(photos), 16)
    assert len(reads) == 12
    second = decoded(read_folder(photos), 16)
    assert len(reads) == 12
    assert np.array_equal(first.images, second.images)
    assert first.fingerprint == second.fingerprint


def test_a_changed_source_is_decoded_again(photos, reads):
    before = decoded(read_folder(photos), 16)
    path = photos / "cats" / "3.png"
    Image.new("RGB", (30, 20), "red").save(path)
    os.utime(path, ns=(1, 1))                                      # changed within the tick of the clock
    after = decoded(read_folder(photos), 16)
    assert len(reads) == 24
    assert (after.images[3] == (255, 0, 0)).all()
    assert before.fingerprint != after.fingerprint


def test_an_interrupted_build_goes_on_where_it_stopped(photos, reads, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 3)
    complete = cache.read_image

    def interrupted(source):
        if len(reads) >= 6:
            raise KeyboardInterrupt
        return complete(source)

    monkeypatch.setattr(cache, "read_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decoded(read_folder(photos), 16)
    assert [path.suffix for path in decoded_folder().iterdir()] == [".partial"]
    monkeypatch.setattr(cache, "read_image", complete)
    stored = decoded(read_folder(photos), 16)
    assert len(reads) == 12                                        # none was read twice
    assert np.array_equal(stored.images[7], resize_image(read_image(photos / "dogs" / "1.png"), 16))
    assert [path.suffix for path in decoded_folder().iterdir()] == [""]


def test_several_builders_at_once_end_with_one_entry(photos):
    images = read_folder(photos)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: decoded(images, 16, progress=False), range(6)))
    assert all(np.array_equal(result.images, results[0].images) for result in results)
    assert [path.suffix for path in decoded_folder().iterdir()] == [""]


def test_processes_share_the_work(photos):
    code = ("import sys; from dmn4.data.cache import decoded; from dmn4.data.folders import read_folder; "
            "print(decoded(read_folder(sys.argv[1]), 16).fingerprint)")
    runs = [subprocess.Popen([sys.executable, "-c", code, str(photos)], stdout=subprocess.PIPE, text=True)
            for _ in range(2)]
    assert {run.communicate()[0].strip() for run in runs} == {read_folder(photos).fingerprint}
    assert [path.suffix for path in decoded_folder().iterdir()] == [""]


def test_an_unreadable_picture_is_left_out_with_a_warning_each_time(photos):
    path = photos / "cats" / "2.png"
    path.write_bytes(path.read_bytes()[:50])
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"left out: cannot read '.*cats/2\.png' as an image"):
            stored = decoded(read_folder(photos), 16)
        assert stored.labels.tolist() == [0] * 5 + [1] * 6
        assert np.array_equal(stored.images[2], resize_image(read_image(photos / "cats" / "3.png"), 16))


@pytest.mark.filterwarnings("ignore:left out")
def test_many_unreadable_pictures_are_counted_and_none_readable_is_an_error(photos):
    for path in photos.rglob("*.png"):
        path.write_bytes(b"words")
    with pytest.raises(InputError, match="none of the 12 pictures of photos can be read: cannot read"):
        decoded(read_folder(photos), 16)
    Image.new("RGB", (4, 4)).save(photos / "cats" / "0.png")
    with pytest.warns(UserWarning, match="11 unreadable pictures of photos in all"):
        assert len(decoded(read_folder(photos), 16)) == 1


@pytest.mark.parametrize("size", [16, None])
def test_a_picture_that_could_not_be_read_once_is_read_when_it_can_be(photos, monkeypatch, reads, size):
    away, path = cache.read_image, photos / "cats" / "2.png"

    def drive_is_away(source):
        if source == path:
            raise InputError(f"cannot read {str(path)!r}: the drive is away")
        return away(source)

    monkeypatch.setattr(cache, "read_image", drive_is_away)
    for _ in range(2):                                             # told each time, not only the first
        with pytest.warns(UserWarning, match="the drive is away"):
            assert len(decoded(read_folder(photos), size)) == 11
    count = len(reads)
    monkeypatch.setattr(cache, "read_image", away)
    stored = decoded(read_folder(photos), size)                    # file, size and time have not changed
    assert len(stored) == 12
    assert set(reads[count:]) == {path}                            # the others were not read again
    assert np.array_equal(stored.images[2], resize_image(read_image(path), stored.images.shape[1:3]))


def test_the_size_may_stay_if_all_pictures_share_it(photos):
    assert decoded(read_folder(photos), None).images.shape == (12, 20, 30, 3)
    Image.new("RGB", (9, 8)).save(photos / "cats" / "0.png")
    with pytest.raises(InputError, match=r"differ in size: 9 x 8 in '.*0\.png', 30 x 20 in .*; give a size"):
        decoded(read_folder(photos), None)


def test_arrays_of_the_right_size_are_used_as_they_are():
    images = ImageSet(np.zeros((2, 8, 8, 3), np.uint8), [0, 1], ("a", "b"))
    assert decoded(images, 8) is images
    assert decoded(images, None) is images
    assert decoded(images, 4).images.shape == (2, 4, 4, 3)


def test_clearing_frees_what_was_decoded_and_nothing_else(photos):
    (cache_folder() / "fruit").mkdir(parents=True)
    decoded(read_folder(photos), 16)
    room = cached_bytes()
    assert room > 12 * 16 * 16 * 3
    assert clear() == room
    assert cached_bytes() == 0
    assert (cache_folder() / "fruit").is_dir()


def test_a_cache_folder_that_cannot_be_written_is_named(photos, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(photos / "cats" / "0.png"))
    with pytest.raises(InputError, match=r"cannot write the cache folder .*0\.png.*set DMN4_CACHE to another"):
        decoded(read_folder(photos), 16)


def test_a_full_disk_is_told_before_the_work(photos, monkeypatch):
    monkeypatch.setattr(entries.shutil, "disk_usage", lambda folder: SimpleNamespace(free=9))
    with pytest.raises(InputError, match=r"an entry of the cache needs .* GB free; set DMN4_CACHE"):
        decoded(read_folder(photos), 16)


def test_the_room_of_an_entry_is_taken_before_the_work(photos, monkeypatch):
    monkeypatch.setattr(cache, "read_image", lambda source: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        decoded(read_folder(photos), 200)
    files = list(decoded_folder().glob("*.partial/pixels.npy"))
    assert [path.stat().st_blocks * 512 >= 12 * 200 * 200 * 3 for path in files] == [True]


def test_a_disk_that_is_full_after_all_is_one_line_and_nothing_is_left(photos, tmp_path):
    code = ("import resource, sys; from dmn4.cli import main; "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); "
            "main(['data', 'prepare', sys.argv[1], '--size', '200'])")
    run = subprocess.run([sys.executable, "-c", code, str(photos)], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "dmn4: error: cannot write the cache folder" in run.stderr
    assert "0.0 GB are needed); set DMN4_CACHE to another" in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(decoded_folder().iterdir())


def test_ctrl_c_while_room_is_reserved_leaves_nothing(photos, monkeypatch):
    def interrupted(number, start, size):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "posix_fallocate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decoded(read_folder(photos), 16)
    assert not list(decoded_folder().iterdir())


def test_a_draft_of_a_process_that_was_killed_is_removed_after_an_hour(photos):
    for name, age in (("old", 4000), ("new", 0)):
        (decoded_folder() / f".new-{name}").mkdir(parents=True)
        os.utime(decoded_folder() / f".new-{name}", (time.time() - age,) * 2)
    decoded(read_folder(photos), 16)
    assert [path.name for path in decoded_folder().glob(".new-*")] == [".new-new"]


def test_a_cache_that_is_cleared_during_the_work_does_not_end_it(photos, monkeypatch):
    def clear_and_read(source):
        clear()
        return read_image(source)

    monkeypatch.setattr(cache, "read_image", clear_and_read)
    images = decoded(read_folder(photos), 16)
    assert np.array_equal(images.images[7], resize_image(read_image(photos / "dogs" / "1.png"), 16))


def test_an_entry_that_a_crash_cut_off_is_decoded_again(photos):
    decoded(read_folder(photos), 16)
    for path in decoded_folder().glob("*/pixels.npy"):
        os.truncate(path, 500)
    images = decoded(read_folder(photos), 16)
    assert np.array_equal(images.images[7], resize_image(read_image(photos / "dogs" / "1.png"), 16))


def test_a_partial_entry_in_a_cache_that_can_only_be_read_is_filled_in_memory(photos, monkeypatch):
    path = photos / "cats" / "2.png"
    path.write_bytes(b"words")
    with pytest.warns(UserWarning, match="left out"):
        decoded(read_folder(photos), 16)
    opened = entries._open

    def read_only(folder, mode, names):
        if mode == "r+":
            raise PermissionError
        return opened(folder, mode, names)

    monkeypatch.setattr(entries, "_open", read_only)
    with pytest.warns(UserWarning, match="left out"):
        assert len(decoded(read_folder(photos), 16)) == 11


def test_the_cache_folder_is_found_in_the_usual_places(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DMN4_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "dmn4"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "dmn4"


def test_the_cache_folder_of_another_system_gives_way_to_one_that_is_there(monkeypatch, tmp_path):
    for name in ("DMN4_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cache, "user_cache_path", lambda name, appauthor: tmp_path / "Library" / "Caches" / name)
    assert cache_folder() == tmp_path / "Library" / "Caches" / "dmn4"
    (tmp_path / ".cache" / "dmn4").mkdir(parents=True)
    assert cache_folder() == tmp_path / ".cache" / "dmn4"
