"""`dmn4 data` in the shell."""

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from dmn4.benchmark.data import measure, timed
from dmn4.cli.data import app
from dmn4.data.cache import cached_bytes
from dmn4.data.layouts import open_dataset
from dmn4.errors import InputError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Two splits of two classes of 45 random pictures; a class name with a space."""
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for name in ("big cats", "dogs"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(45):
                Image.fromarray(rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "photos"


def run(*words) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_inspect_says_what_it_is(photos):
    text = run("inspect", photos)
    assert f"{photos}: folders by split and class" in text
    assert "2 classes, 90 images, 45 to 45 a class; 12 x 9 (90)" in text
    assert f"fingerprint {open_dataset(photos, 'train').fingerprint}" in text


def test_inspect_can_be_read_by_a_program(photos):
    report = json.loads(run("inspect", photos, "--json", "--no-cache"))
    assert [part["split"] for part in report["splits"]] == ["train", "test"]
    assert report["splits"][0]["images"] == 90
    assert cached_bytes() == 0


def test_prepare_decodes_every_split_and_shows_the_room_it_takes(photos):
    text = run("prepare", photos, "--size", 10)
    assert "photos train: 90 images, 2 classes, fingerprint" in text
    assert "decoded pictures and maps take 0.1 MB in" in text
    assert cached_bytes() > 180 * 10 * 10 * 3


def test_prepare_writes_folders_that_are_the_same_data(photos, tmp_path):
    run("prepare", photos, "--size", 10, "-o", tmp_path / "out")
    assert (tmp_path / "out" / "train" / "big cats" / "00044.png").is_file()
    written = open_dataset(tmp_path / "out", "train")
    assert written.counts.tolist() == [45, 45]
    assert Image.open(written.images[0]).size == (10, 10)
    with pytest.raises(InputError, match="is not empty; choose a new folder"):
        run("prepare", photos, "-o", tmp_path / "out")


def test_prepare_gives_every_class_a_folder_that_is_found_again(tmp_path):
    names, table = ["..", ".hidden", "x" * 250, "a/b"], tmp_path / "all.csv"
    for place in range(len(names)):
        Image.new("RGB", (12, 12), (50 * place, 0, 0)).save(tmp_path / f"{place}.png")
    table.write_text("\n".join(["filename,label", *(f"{place}.png,{name}" for place, name in enumerate(names))]))
    run("prepare", table, "--size", 10, "-o", tmp_path / "out")
    assert open_dataset(tmp_path / "out", "all").counts.tolist() == [1] * len(names)


def test_clear_frees_the_cache(photos):
    run("prepare", photos, "--size", 10)
    assert "freed 0.1 MB in" in run("clear")
    assert cached_bytes() == 0


def test_a_wrong_path_and_a_choice_that_does_not_apply_are_input_errors(photos, tmp_path):
    with pytest.raises(InputError, match="there is no folder or file"):
        run("inspect", tmp_path / "none")
    with pytest.raises(InputError, match="offers no choice of 'cub_split'"):
        run("inspect", photos, "--cub-split", "frn")


def test_the_benchmark_prints_a_line_for_each_figure(photos):
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(2))
    lines = "\n".join(measure(photos, network, "train", repeats=1))
    assert "decode photos train once: 90 pictures" in lines
    assert "80 pictures of 500 x 375: decoded" in lines
    assert "batch by dmn4-conv4:" in lines


def test_a_time_is_the_median_of_the_calls_that_count():
    calls = []
    assert timed(lambda: calls.append(1), 5) < 0.1
    assert len(calls) == 6
