"""Sorted again, a picture moves; nothing is overwritten, nothing leaves the folder, any name has a place."""

import contextlib
import importlib
import json
import operator
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli_photos import home, run  # noqa: F401  the fixture

from dmn4.classify.verdict import Verdict
from dmn4.errors import InputError
from dmn4.sorting import sorted_folder
from dmn4.sorting.predictions import Prediction
from dmn4.sorting.sorted_folder import LIST, SortedFolder, folder_name
from dmn4.sorting.undo import Undone, undo_last_run


def verdict(label: str | None) -> Verdict:
    return Verdict(label, label or "wren", 0.9, 0.5)


def picture(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def inside(folder: Path, read: bool = True) -> dict[str, str]:
    """The pictures in a sorted folder and their contents."""
    return {path.relative_to(folder).as_posix(): path.read_text() if read else "" for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != LIST}


def sort(folder: Path, labels: dict[Path, str | None], link: bool = False) -> dict[str, str]:
    sorted_ = SortedFolder(folder, link)
    for path, label in labels.items():
        sorted_.take(Prediction(path, verdict(label)))
    return inside(folder)


@pytest.mark.parametrize("link", [False, True])
def test_what_changed_its_label_moves_and_the_rest_stays(tmp_path, link):
    wren, robin, out = picture(tmp_path / "1.jpg", "wren"), picture(tmp_path / "2.jpg", "robin"), tmp_path / "s"
    assert sort(out, {wren: "robin", robin: "robin"}, link) == {"robin/1.jpg": "wren", "robin/2.jpg": "robin"}
    assert sort(out, {wren: "wren", robin: "robin"}, link) == {"robin/2.jpg": "robin", "wren/1.jpg": "wren"}
    assert sort(out, {wren: None, robin: None}, link) == {"none of these/1.jpg": "wren", "none of these/2.jpg": "robin"}
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["none of these"]
    assert (out / "none of these" / "1.jpg").is_symlink() == link


def test_a_copy_that_someone_changed_is_left_alone(tmp_path):
    wren = picture(tmp_path / "1.jpg", "wren")
    sort(tmp_path / "s", {wren: "robin"})
    picture(tmp_path / "s" / "robin" / "1.jpg", "retouched")
    assert sort(tmp_path / "s", {wren: "wren"}) == {"robin/1.jpg": "retouched", "wren/1.jpg": "wren"}


def test_the_copy_of_two_equal_pictures_stays_while_one_of_them_needs_it(tmp_path):
    first, second = picture(tmp_path / "a" / "1.jpg", "wren"), picture(tmp_path / "b" / "1.jpg", "wren")
    assert sort(tmp_path / "s", {first: "wren", second: "wren"}) == {"wren/1.jpg": "wren"}
    assert sort(tmp_path / "s", {second: "robin"}) == {"robin/1.jpg": "wren", "wren/1.jpg": "wren"}
    assert sort(tmp_path / "s", {first: "robin"}) == {"robin/1.jpg": "wren"}


@pytest.mark.parametrize("moment", ["os.replace", "shutil.copy2"])
def test_killed_at_any_moment_the_next_run_leaves_one_copy(tmp_path, monkeypatch, moment):
    wren = picture(tmp_path / "1.jpg", "wren")
    if moment == "os.replace":
        sort(tmp_path / "s", {wren: "robin"})

    def killed(*paths):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"dmn4.sorting.sorted_folder.{moment}", killed)
        with pytest.raises(KeyboardInterrupt):
            sort(tmp_path / "s", {wren: "wren"})
    assert sort(tmp_path / "s", {wren: "finch"}) == {"finch/1.jpg": "wren"}


def test_a_list_that_a_crash_cut_off_or_a_stranger_wrote_does_no_harm(tmp_path):
    wren, other = picture(tmp_path / "1.jpg", "wren"), picture(tmp_path / "private" / "1.jpg", "wren")
    sort(tmp_path / "s", {wren: "robin"})
    lines = [json.dumps({"image": str(wren), "copy": path}) for path in ("../private/1.jpg", "../1.jpg", "", "x/..",
                                                                                 "/1.jpg", "./1.jpg", "x/")]
    with open(tmp_path / "s" / LIST, "a") as file:
        file.write("\n".join([*lines, "[]", "[" * 100_000, "7", '{"image": ["a"], "copy": "a/b"}', '{"image": "half']))
    assert sort(tmp_path / "s", {wren: "wren"}) == {"wren/1.jpg": "wren"}
    assert other.exists()
    assert sort(tmp_path / "s", {wren: "finch"}) == {"finch/1.jpg": "wren"}


def test_names_as_long_as_can_be_have_a_place_each(tmp_path):
    name = "ö" * 125 + "a.jpg"                                            # 255 bytes
    paths = [picture(tmp_path / folder / name, folder) for folder in ("a", "b")]
    found = sort(tmp_path / "s", dict.fromkeys(paths, "é" * 200))
    assert sorted(found.values()) == ["a", "b"]
    assert all(len(os.fsencode(part)) <= 255 for path in found for part in Path(path).parts)


def test_a_name_that_is_no_utf8_is_copied_as_it_is(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    assert sort(tmp_path / "s", {picture(tmp_path / name, "x"): "wren"}) == {f"wren/{name}": "x"}
    assert sort(tmp_path / "s", {tmp_path / name: "robin"}) == {f"robin/{name}": "x"}


@given(st.sets(st.text("a/\0. _", min_size=1, max_size=5) | st.text(st.characters(codec="utf-8"), max_size=300),
               min_size=2, max_size=5))
def test_every_label_has_a_folder_of_its_own_right_below(labels):
    names = [folder_name(label) for label in labels]
    assert len(set(names)) == len(names)
    assert all(name == Path(name).name and name not in (".", "..") and len(os.fsencode(name)) <= 255 for name in names)


def test_a_picture_that_is_gone_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"cannot put '.*1\.jpg' into '.*wren': No such file"):
        SortedFolder(tmp_path / "s").take(Prediction(tmp_path / "1.jpg", verdict("wren")))
    assert inside(tmp_path / "s") == {}


def test_a_copy_that_fails_leaves_no_draft(tmp_path, monkeypatch):
    def full(source, draft):
        Path(draft).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sorted_folder.shutil, "copy2", full)
    with pytest.raises(InputError, match="No space left on device"):
        SortedFolder(tmp_path / "s").take(Prediction(picture(tmp_path / "1.jpg", "x"), verdict("wren")))
    assert inside(tmp_path / "s") == {}


# ---------------------------------------------------------------------------------------------------------- undoing

def undo(folder: Path) -> tuple[dict[str, str], Undone]:
    undone = undo_last_run(folder)
    return inside(folder), undone


@pytest.mark.parametrize("link", [False, True])
def test_each_run_is_undone_to_what_was_before_it(tmp_path, link):
    pictures = [picture(tmp_path / f"{name}.jpg", name) for name in "abc"]
    states = [inside(tmp_path / "s")] if (tmp_path / "s").exists() else [{}]
    runs = [("x", "x", None), ("x", "y", "y"), (None, "y", "x")]
    states.extend(sort(tmp_path / "s", dict(zip(pictures, labels, strict=True)), link) for labels in runs)
    for state in states[-2::-1]:
        assert undo(tmp_path / "s")[0] == state
        assert all(path.is_symlink() == link for path in (tmp_path / "s").rglob("*.jpg"))
    with pytest.raises(InputError, match="nothing to undo"):
        undo(tmp_path / "s")
    assert sort(tmp_path / "s", {pictures[0]: "z"}) == {"z/a.jpg": "a"}
    assert undo(tmp_path / "s")[0] == {}


def test_nothing_that_a_person_changed_or_that_is_the_last_of_its_kind_is_removed(tmp_path):
    kept, lost, plain = (picture(tmp_path / f"{name}.jpg", name) for name in ("kept", "lost", "plain"))
    sort(tmp_path / "s", {kept: "x", lost: "x", plain: "x"})
    picture(tmp_path / "s" / "x" / "kept.jpg", "retouched")
    lost.unlink()
    state, undone = undo(tmp_path / "s")
    assert state == {"x/kept.jpg": "retouched", "x/lost.jpg": "lost"}
    assert (undone.removed, undone.left) == (1, 2)
    assert "2 left as they are" in undone.words


def test_a_place_that_was_taken_meanwhile_is_not_overwritten(tmp_path):
    wren = picture(tmp_path / "1.jpg", "wren")
    sort(tmp_path / "s", {wren: "x"})
    sort(tmp_path / "s", {wren: "y"})
    picture(tmp_path / "s" / "x" / "1.jpg", "another")
    assert undo(tmp_path / "s")[0] == {"x/1.jpg": "another", "y/1.jpg": "wren"}


def test_equal_pictures_that_share_a_copy_get_back_what_each_had(tmp_path):
    first, second = picture(tmp_path / "a" / "1.jpg", "wren"), picture(tmp_path / "b" / "1.jpg", "wren")
    before = sort(tmp_path / "s", {first: "x", second: "y"})
    assert sort(tmp_path / "s", {first: "z", second: "z"}) == {"z/1.jpg": "wren"}
    assert undo(tmp_path / "s")[0] == before


@pytest.mark.parametrize("moment", ["put_copy", "os.path.lexists", "append_line"])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_killed_at_any_moment_the_next_call_ends_what_this_one_began(tmp_path, monkeypatch, moment, after):
    pictures = [picture(tmp_path / f"{name}.jpg", name) for name in "abc"]
    before = sort(tmp_path / "s", dict.fromkeys(pictures[:2], "x"))
    sort(tmp_path / "s", dict.fromkeys(pictures, "y"))
    module, calls = importlib.import_module("dmn4.sorting.undo"), iter(range(after))
    real = operator.attrgetter(moment)(module)

    def killed(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(f"dmn4.sorting.undo.{moment}", killed)
        undo(tmp_path / "s")
    with contextlib.suppress(InputError):
        if inside(tmp_path / "s") != before:
            undo(tmp_path / "s")
    assert inside(tmp_path / "s") == before


def test_a_list_of_before_runs_were_told_apart_is_one_run(tmp_path):
    wren = picture(tmp_path / "1.jpg", "wren")
    sort(tmp_path / "s", {wren: "x"})
    path = tmp_path / "s" / LIST
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if not line.startswith('{"run"')))
    assert undo(tmp_path / "s")[0] == {}


def test_the_command_sorts_and_undoes(home, tmp_path, capsys):  # noqa: F811
    out = tmp_path / "s"
    code, _, _ = run(["sort", home / "colours.dmn4", home / "inbox", "--into", out], capsys)
    assert code == 0
    assert len(inside(out, read=False)) == 6
    code, said, _ = run(["sort", "--undo", out], capsys)
    assert code == 0
    assert "6 copies removed, 0 put back" in said
    assert not inside(out, read=False)
    for wrong, message in (([], "dmn4 sort MODEL IMAGES --into FOLDER"), (["--undo", out], "nothing to undo"),
                           ([home / "colours.dmn4", "--undo", out], "--undo goes alone")):
        code, _, messages = run(["sort", *wrong], capsys)
        assert (code, message in messages) == (2, True)
