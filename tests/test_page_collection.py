"""The page for a real collection: folders, many pictures, a queue by keyboard, suggestions, suspects, undo; tokens."""

import csv
import io
import re

import httpx
import numpy as np
import pytest
from PIL import Image
from test_page import address, ask, browser, counts, files, page, teach  # noqa: F401  fixtures among them
from toy_service import Patches, picture, running

from dmn4.web.limits import Limits
from dmn4.web.store import Store

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
CHOOSE = "Choose pictures to classify"


def painted(number: int, seed: int = 0) -> bytes:
    """A noisy picture of one of many colours."""
    colour = np.random.default_rng(number).integers(0, 256, 3)
    noise = np.random.default_rng([seed, number]).normal(0, 12, (40, 48, 3))
    out = io.BytesIO()
    Image.fromarray((noise + colour).clip(0, 255).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def folder(path, **classes):
    """A folder with class folders of pictures."""
    for name, pictures in classes.items():
        (path / name).mkdir(parents=True)
        for number, content in enumerate(pictures):
            (path / name / f"{number}.png").write_bytes(content)
    return path


def drop(page, selector, path):
    """Drop a file or a folder of this machine, as a person does."""
    box = page.locator(selector).bounding_box()
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": box["x"] + box["width"] / 2, "y": box["y"] + 20,
                                                 "data": {"items": [], "files": [str(path)], "dragOperationsMask": 1}})


def looked_at(page):
    """Wait until every picture was looked at."""
    expect(page.locator("#looking")).to_be_hidden()
    expect(page.locator(".tile.waiting")).to_have_count(0)


def ask_many(page):
    """Four pictures: two that are plain, two of no class."""
    inbox = files("red", 7) + files("blue", 7, 8) + files("green", 7)
    for number, one in enumerate(inbox):
        one["name"] = f"{number}.png"
    page.get_by_label(CHOOSE, exact=True).set_input_files(inbox)
    expect(page.locator(".tile")).to_have_count(4)
    looked_at(page)


def tile(page, name):
    return page.locator(f".tile[aria-label^='{name}:']")


# ------------------------------------------------------------------------------------------------- many pictures

def test_many_pictures_are_asked_at_once_and_said_in_the_words_of_the_service(page, address):
    teach(page)
    ask_many(page)
    known = page.url.split("#")[1]
    for number, (colour, seed) in enumerate((("red", 7), ("blue", 7), ("blue", 8), ("green", 7))):
        asked = {"picture": picture(colour, seed)}
        said = httpx.post(f"{address}/api/classifiers/{known}/predictions", files=asked).json()
        expect(tile(page, f"{number}.png")).to_have_attribute("aria-label", f"{number}.png: {said['line']}")
        tile(page, f"{number}.png").click()
        expect(page.locator("#verdict")).to_have_text(said["words"])
        expect(page.locator("#confidence")).to_have_text(", ".join(filter(None, (said["chance"], said["others"]))))


def test_no_rule_of_the_page_writes_a_percent(page, address):
    for name in ("main", "answer", "pictures", "review", "evidence", "shots", "dom", "enough"):
        assert not re.search(r"toFixed\(0\)|Math\.round\(100|[>] 99", httpx.get(f"{address}/page/{name}.js").text)


def test_a_picture_that_cannot_be_read_is_a_tile_that_says_so(page):
    teach(page)
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"no picture"}
    page.get_by_label(CHOOSE, exact=True).set_input_files([*files("red", 7), broken])
    expect(tile(page, "broken.png")).to_have_attribute("aria-label", re.compile("cannot be read"))
    expect(tile(page, "7.png")).to_have_attribute("aria-label", re.compile(r"red \("))
    page.get_by_role("button", name="Unreadable 1").click()
    expect(page.locator(".tile")).to_have_count(1)


def test_what_was_said_is_kept_as_a_table(page, tmp_path):
    teach(page)
    ask_many(page)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as a table").click()
    saving.value.save_as(tmp_path / "names.csv")
    rows = list(csv.DictReader((tmp_path / "names.csv").open()))
    assert list(rows[0]) == ["image", "label", "nearest", "probability", "known", "perhaps", "error"]
    nearest = [(row["image"], row["nearest"]) for row in rows]
    assert nearest[:3] == [("0.png", "red"), ("1.png", "blue"), ("2.png", "blue")]


# ------------------------------------------------------------------------------------------------------- folders

def test_a_dropped_folder_of_folders_becomes_columns(page, tmp_path):
    photos = folder(tmp_path / "photos", red=[picture("red", 0), picture("red", 1)], blue=[picture("blue", 0)])
    (photos / "red" / "notes.txt").write_text("no picture")
    drop(page, "#teach", photos)
    expect(page.get_by_label("Name of class 1")).to_have_value("blue")
    expect(page.get_by_label("Name of class 2")).to_have_value("red")
    page.get_by_role("button", name="Learn these classes").click()
    counts(page, blue="1 picture", red="2 pictures")
    drop(page, "#teach", folder(tmp_path / "more", red=[picture("red", 5)], green=[picture("green", 0)]))
    counts(page, blue="1 picture", green="1 picture", red="3 pictures")
    page.get_by_role("button", name="Undo").click()
    counts(page, blue="1 picture", red="2 pictures")


def test_a_dropped_inbox_is_asked_about(page, tmp_path):
    teach(page)
    drop(page, "#question-drop", folder(tmp_path / "inbox", monday=[picture("red", 7)], tuesday=[picture("blue", 7)]))
    looked_at(page)
    expect(tile(page, "inbox/monday/0.png")).to_have_attribute("aria-label", re.compile(r"red \("))
    expect(tile(page, "inbox/tuesday/0.png")).to_have_attribute("aria-label", re.compile(r"blue \("))


def test_folders_are_chosen_without_a_mouse(page, tmp_path):
    photos = folder(tmp_path / "photos", **{f"kind{number:02}": [painted(number)] for number in range(12)})
    page.get_by_label("Choose a folder of class folders").set_input_files(photos)
    expect(page.get_by_text("12 classes, 12 pictures.")).to_be_visible()
    expect(page.get_by_label("Name of class 12")).to_have_value("kind11")
    page.get_by_role("button", name="Remove class 12").click()
    expect(page.get_by_text("11 classes, 11 pictures.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("12 classes, 12 pictures.")).to_be_visible()


def test_more_pictures_than_a_request_may_hold_are_taught_in_several(browser, tmp_path):
    with running(Patches(), limits=Limits(pictures=4)) as address:
        page = browser.new_page()
        page.goto(address)
        photos = folder(tmp_path / "photos", red=[picture("red", seed) for seed in range(7)], blue=[picture("blue")])
        page.get_by_label("Choose a folder of class folders").set_input_files(photos)
        page.get_by_role("button", name="Learn these classes").click()
        counts(page, blue="1 picture", red="7 pictures")
        page.close()


# ------------------------------------------------------------------------------------------------------ the queue

def doubted(page):
    """A classifier of five red and five blue pictures, and a queue of three that are neither."""
    teach(page, each=5)
    inbox = [dict(one, name=f"{number}.png") for number, one in enumerate(files("green", 7, 8) + files("grey", 7))]
    page.get_by_label(CHOOSE, exact=True).set_input_files(inbox)
    looked_at(page)
    page.get_by_role("button", name="Check the doubtful (3)").click()
    expect(page.locator("#review-place")).to_have_text("1 of 3")


def test_the_queue_is_checked_by_keyboard(page):
    doubted(page)
    chosen = page.locator("#choices span").first.inner_text()
    page.keyboard.press("1")
    expect(page.locator("#review-place")).to_have_text("2 of 3")
    page.keyboard.press("u")
    expect(page.locator("#review-place")).to_have_text("3 of 3")
    page.keyboard.press("n")
    expect(page.get_by_label("No, it is")).to_be_focused()
    page.get_by_label("No, it is").select_option("something new …")
    page.get_by_label("Name of the new class").fill("leaf")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 pictures labelled, 1 none of these, 0 skipped.")).to_be_visible()
    expected = {"blue": 5, "leaf": 1, "red": 5}
    expected[chosen] += 1
    counts(page, **{name: f"{size} picture{'s' * (size > 1)}" for name, size in expected.items()})
    expect(page.get_by_role("button", name="Checked by you 3")).to_be_visible()


def test_what_was_said_in_the_queue_is_taken_back(page):
    doubted(page)
    page.keyboard.press("1")
    page.keyboard.press("2")
    expect(page.locator("#review-place")).to_have_text("3 of 3")
    page.keyboard.press("z")
    expect(page.locator("#review-place")).to_have_text("2 of 3")
    expect(page.get_by_text(re.compile("^Undone: calling"))).to_be_visible()
    expect(page.locator("#saving")).to_have_text("")
    page.keyboard.press("s")
    expect(page.locator("#review-place")).to_have_text("3 of 3")
    page.keyboard.press("Escape")
    expect(page.locator("#pictures")).to_be_focused()
    expect(page.locator(".tile.marked")).to_have_count(1)
    expect(page.get_by_text("6 pictures", exact=True)).to_have_count(1)
    expect(page.get_by_text("5 pictures", exact=True)).to_have_count(1)


def test_yes_learns_what_it_said(page):
    teach(page)
    ask_many(page)
    page.get_by_role("button", name="Which to label next?").click()
    expect(page.locator(".badge").first).to_have_text("1")
    green = page.locator(".tile").first                       # nothing that was taught is like it
    expect(green).to_have_attribute("aria-label", re.compile("^3.png.*suggestion 1"))
    page.get_by_role("button", name="Label these").click()
    page.keyboard.press("s")
    expect(page.locator("#review-place")).to_have_text("2 of 4")
    words = page.locator("#verdict").inner_text()
    page.keyboard.press("y")
    expect(page.locator("#review-place")).to_have_text("3 of 4")
    page.keyboard.press("Escape")
    if words != "none of these":
        expect(page.locator(".column", has_text=words).locator("p")).to_have_text("4 pictures")


def test_what_a_picture_is_not_is_learnt_and_taken_back(page):
    doubted(page)
    page.keyboard.press("u")
    expect(page.locator("#review-place")).to_have_text("2 of 3")
    name = page.locator("#verdict").inner_text()
    page.keyboard.press("x")
    expect(page.locator("#review-place")).to_have_text("3 of 3")
    page.keyboard.press("Escape")
    expect(page.locator("#saving")).to_have_text("")
    words = "none of these" if name == "none of these" else f"not {name}"
    column = page.locator(".ruled-out")
    expect(column.locator("p")).to_have_text("2 pictures: none of these" + (f", {words}" if "not" in words else ""))
    column.get_by_role("button", name=f"Take back picture 2: {words}").click()
    expect(column.locator("p")).to_have_text("1 picture: none of these")
    page.get_by_role("button", name="Undo").click()
    expect(column.locator(".thumb")).to_have_count(2)
    for _ in range(2):
        page.get_by_role("button", name="Undo").click()
    expect(column).to_have_count(0)
    expect(page.locator(".tile.marked")).to_have_count(0)


def test_it_is_something_else_can_be_chosen(page):
    teach(page)
    page.get_by_label(CHOOSE, exact=True).set_input_files(files("red", 7))
    expect(page.locator("#verdict")).to_have_text("red")
    page.get_by_label("No, it is").select_option("something else, not red")
    page.get_by_role("button", name="Correct it").click()
    expect(page.get_by_text("Learnt: not red. This is what it says now.")).to_be_visible()
    expect(page.locator(".ruled-out p")).to_have_text("1 picture: not red")
    page.get_by_role("button", name="None of these").click()
    expect(page.get_by_text("Learnt: none of these. This is what it says now.")).to_be_visible()
    expect(page.locator(".ruled-out p")).to_have_text("2 pictures: not red, none of these")


# ------------------------------------------------------------------------------------------------- labels and undo

def test_labels_that_look_wrong_are_found_and_put_right(page):
    page.get_by_label("Name of class 1").fill("red")
    page.get_by_label("Pictures of class 1").set_input_files(files("red", 0, 1, 2, 3))
    page.get_by_label("Name of class 2").fill("blue")
    page.get_by_label("Pictures of class 2").set_input_files(files("blue", 0, 1, 2, 3) + files("red", 4))
    page.get_by_role("button", name="Learn these classes").click()
    page.get_by_role("button", name="Check the labels").click()
    dialog = page.get_by_role("dialog", name="This label may be wrong")
    expect(dialog).to_contain_text("The other pictures would call it red (")
    dialog.get_by_role("button", name="Close").click()
    suspect = page.get_by_role("button", name=re.compile("^Looks like red, .*: picture 5 of blue$"))
    suspect.click()
    dialog.get_by_role("button", name="It is red").click()
    expect(page.get_by_text("No other label looks wrong.")).to_be_visible()
    counts(page, blue="4 pictures", red="5 pictures")
    page.get_by_role("button", name="Undo").click()
    counts(page, blue="5 pictures", red="4 pictures")


def test_the_page_says_whether_enough_is_labelled(page):
    teach(page, each=5)
    page.get_by_role("button", name="Have I labelled enough?").click()
    dialog = page.get_by_role("dialog", name="Have I labelled enough?")
    expect(dialog).to_contain_text("of new pictures are named rightly")
    expect(dialog.get_by_role("img", name=re.compile("^Named rightly now: .* twice as many: "))).to_be_visible()
    expect(dialog.locator(".accuracies .bar")).to_have_count(2)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_a_picture_is_moved_and_removed_and_each_is_undone(page):
    teach(page)
    page.get_by_role("button", name="Picture 1 of red").click()
    page.get_by_role("button", name="Remove it").click()
    counts(page, blue="3 pictures", red="2 pictures")
    page.get_by_role("button", name="Picture 1 of red").click()
    page.get_by_role("dialog").get_by_label("It is").select_option("blue")
    page.get_by_role("button", name="Move it", exact=True).click()
    counts(page, blue="4 pictures", red="1 picture")
    page.keyboard.press("Control+z")
    counts(page, blue="3 pictures", red="2 pictures")
    page.get_by_role("button", name="Undo").click()
    counts(page, blue="3 pictures", red="3 pictures")


def test_a_forgotten_class_and_starting_over_are_undone(page):
    page.get_by_role("button", name="Try it with fruit").click()
    page.get_by_role("button", name="Forget lime").click()
    counts(page, apple="3 pictures", plum="3 pictures")
    page.get_by_role("button", name="Undo").click()
    counts(page, apple="3 pictures", lime="3 pictures", plum="3 pictures")
    page.get_by_role("button", name="Start over").click()
    expect(page.locator(".column:has(h3)")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    counts(page, apple="3 pictures", lime="3 pictures", plum="3 pictures")


def test_learning_is_undone_to_the_drafts(page):
    teach(page)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("Name of class 1")).to_have_value("red")
    expect(page.get_by_role("button", name="Remove picture 3 of class 2")).to_be_visible()
    expect(page.get_by_role("button", name="Learn these classes")).to_be_enabled()


# --------------------------------------------------------------------------------------------------- many classes

def test_twenty_colours_do_not_repeat(page):
    colours = page.evaluate("import('/page/dom.js').then(({ colour }) => [...Array(20).keys()].map(colour))")
    assert len(set(colours)) == 20
    assert all(re.fullmatch("#[0-9a-f]{6}", one) for one in colours)


@pytest.mark.parametrize("width", [390, 1280])
def test_two_hundred_classes_are_usable(page, tmp_path, width):
    page.set_viewport_size({"width": width, "height": 844})
    photos = folder(tmp_path / "photos", **{f"kind{number:03}": [painted(number)] for number in range(200)})
    page.get_by_label("Choose a folder of class folders").set_input_files(photos)
    page.get_by_role("button", name="Learn these classes").click()
    expect(page.get_by_text("200 classes learnt.")).to_be_visible(timeout=60_000)
    assert page.locator("#teach").bounding_box()["height"] < 700
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Find a class").fill("kind12")
    expect(page.locator(".column:has(h3)")).to_have_count(10)
    expect(page.locator("#find-count")).to_have_text("10 classes")
    asked = {"name": "a.png", "mimeType": "image/png", "buffer": painted(3, 1)}
    page.get_by_label(CHOOSE, exact=True).set_input_files(asked)
    expect(page.locator("#answer")).to_be_visible()
    expect(page.locator("#probabilities .bar")).to_have_count(5)
    expect(page.locator("#partners .row")).to_have_count(3)
    page.locator("#all-bars").click()
    expect(page.locator("#probabilities .bar")).to_have_count(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_why_shows_three_classes_and_the_rest_on_request(page, tmp_path):
    photos = folder(tmp_path / "photos", **{name: [picture(name, 0)] for name in ("red", "green", "blue", "grey")})
    page.get_by_label("Choose a folder of class folders").set_input_files(photos)
    page.get_by_role("button", name="Learn these classes").click()
    ask(page, "blue")
    expect(page.locator("#partners h3").first).to_have_text("blue")
    expect(page.locator("#partners .row")).to_have_count(3)
    expect(page.locator("#sums .bar")).to_have_count(3)
    page.get_by_role("button", name="Show all 4 classes").click()
    expect(page.locator("#partners .row")).to_have_count(4)
    expect(page.locator("#sums .bar")).to_have_count(4)


def test_the_runner_up_is_preset(page):
    page.get_by_role("button", name="Try it with fruit").click()
    page.get_by_role("button", name="plum", exact=True).click()
    bars = page.locator("#probabilities .bar-label")
    expect(bars.first).to_have_text("plum")
    expect(page.get_by_label("No, it is")).to_have_value(bars.nth(1).inner_text())


# --------------------------------------------------------------------------------------------------------- tokens

def test_the_page_asks_for_the_token_once_and_no_script_finds_it(browser, tmp_path):
    store = Store(str(tmp_path / "store"))
    token = store.tokens.add("ann", False)
    with running(Patches(), store=store) as address:
        page = browser.new_page()
        page.goto(address)
        dialog = page.get_by_role("dialog", name="Your token for this service")
        expect(page.get_by_label("Your token for this service").and_(page.locator("input"))).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_be_visible()                        # there is nothing to see without one
        page.keyboard.type("dmn4_wrong")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text("This token is unknown, or it was revoked.")
        page.locator("#token").fill(token)
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        teach(page)
        [cookie] = page.context.cookies()
        assert (cookie["value"], cookie["httpOnly"], cookie["sameSite"]) == (token, True, "Strict")
        assert token not in page.evaluate("[document.cookie, ...Object.values(localStorage), location.href].join()")
        page.reload()
        counts(page, blue="3 pictures", red="3 pictures")
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name="Start over").click()
        page.get_by_role("button", name="blue, red").click()   # what the store keeps is offered
        counts(page, blue="3 pictures", red="3 pictures")
        page.get_by_role("button", name="Sign out").click()
        expect(dialog).to_be_visible()
        page.close()
    store.close()
