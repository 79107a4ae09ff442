"""The page in a real browser: teach, ask, see why, correct; by mouse, by keyboard, on a phone; and its mistakes."""

import io
import re
import shutil

import pytest
from PIL import Image
from toy_service import Patches, picture, running

from dmn4.classify.classifier import FewShotClassifier
from dmn4.web.limits import read_pictures
from dmn4.web.routes import classifiers as routes
from dmn4.web.sample import Sample
from dmn4.web.store import Store

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytest.importorskip("playwright.sync_api", reason="the page is not tested: playwright is not installed")
if not CHROMIUM:
    pytest.skip("the page is not tested: there is no chromium (apt-get install chromium)", allow_module_level=True)

from playwright.sync_api import Page, expect, sync_playwright  # noqa: E402

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
FRUIT = Sample([picture(colour, seed) for colour in ("red", "green", "blue") for seed in range(3)],
               ["apple"] * 3 + ["lime"] * 3 + ["plum"] * 3,
               [picture("red", 7), picture("blue", 7), picture("grey", 7)], ["apple", "plum", "stone"])


@pytest.fixture(scope="module")
def address():
    with running(Patches()) as one:
        yield one


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser, address, monkeypatch):
    """A fresh page; it asked nobody but the service, and its scripts made no mistake."""
    monkeypatch.setattr(routes, "fruit_sample", lambda: FRUIT)
    one = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    one.set_default_timeout(15_000)
    asked, mistakes = [], []
    one.on("request", lambda request: asked.append(request.url))
    one.on("pageerror", lambda error: mistakes.append(str(error)))
    one.goto(address)
    yield one
    assert not mistakes
    assert all(url.startswith((address, "blob:", "data:")) for url in asked)
    one.close()


def files(colour: str, *seeds: int) -> list[dict]:
    return [{"name": f"{seed}.png", "mimeType": "image/png", "buffer": picture(colour, seed)} for seed in seeds]


def teach(page: Page, each: int = 3) -> None:
    """Teach red and blue, as a person would."""
    page.get_by_label("Name of class 1").fill("red")
    page.get_by_label("Pictures of class 1").set_input_files(files("red", *range(each)))
    page.get_by_label("Name of class 2").fill("blue")
    page.get_by_label("Pictures of class 2").set_input_files(files("blue", *range(each)))
    page.get_by_role("button", name="Learn these classes").click()
    expect(page.get_by_role("heading", name="Ask")).to_be_visible()


def ask(page: Page, colour: str, seed: int = 9) -> None:
    page.get_by_label("Choose pictures to classify").set_input_files(files(colour, seed))
    expect(page.locator("body.busy")).to_have_count(0)
    expect(page.locator("#answer")).to_be_visible()


def counts(page: Page, **pictures: str) -> None:
    """Check the number of pictures in each learnt column."""
    columns = page.locator(".column:has(h3):not(.ruled-out)")
    expect(columns.locator("h3")).to_have_text(list(pictures))
    expect(columns.locator("p")).to_have_text(list(pictures.values()))


def test_learning_needs_pictures_of_two_classes(page):
    learn = page.get_by_role("button", name="Learn these classes")
    expect(learn).to_be_disabled()
    expect(page.get_by_text("Pictures of two classes are needed.")).to_be_visible()
    page.get_by_label("Pictures of class 1").set_input_files(files("red", 0, 1))
    expect(page.get_by_text("Pictures of one more class are needed.")).to_be_visible()
    page.get_by_role("button", name="Remove picture 1 of class 1").click()
    expect(page.locator(".column").first.get_by_role("img")).to_have_count(0)          # decorative: named by its button
    expect(page.get_by_role("button", name="Remove picture 1 of class 1")).to_be_visible()
    page.get_by_label("Pictures of class 2").set_input_files(files("blue", 0))
    expect(learn).to_be_enabled()
    page.get_by_label("Name of class 2").fill("Class 1")
    expect(page.get_by_text("Two classes have the same name.")).to_be_visible()


def test_teach_ask_and_see_why(page):
    teach(page)
    counts(page, blue="3 pictures", red="3 pictures")
    ask(page, "red")
    expect(page.locator("#verdict")).to_have_text("red")
    expect(page.locator("#confidence")).to_contain_text("%")
    assert page.locator("#probabilities .bar").all_inner_texts()[0].startswith("red")       # by score
    kept = page.locator("#query rect.kept").count()
    expect(page.locator("#why-text")).to_have_text(f"{kept} of 16 patches count, and they say red.")
    assert page.locator("#lines path").count() == kept
    assert page.locator("#matches tr").count() == min(kept, 12)


def test_a_picture_is_sent_once(page):
    teach(page)
    sent = []
    page.on("request", lambda request: sent.append(request.url.rsplit("/")[-1]) if request.method == "POST" else None)
    ask(page, "red")
    expect(page.locator("#why.waiting")).to_have_count(0)
    page.get_by_label("Which patches count").press("Home")    # other rules are in the same answer
    expect(page.locator("#rule-text")).to_contain_text("DN4")
    assert sent == ["explanations"]


def test_the_slider_shows_what_each_rule_keeps(page):
    teach(page)
    ask(page, "blue")
    page.get_by_label("Which patches count").focus()
    kept = {}
    for rule, key in (("dmn4", "End"), ("mn4", "ArrowLeft"), ("dn4", "ArrowLeft")):
        page.keyboard.press(key)
        expect(page.locator("#rule-text")).to_contain_text(f"{rule.upper()}:")
        kept[rule] = page.locator("#query rect.kept").count()
        assert page.locator("#query rect.dropped").count() == 16 - kept[rule]
    assert kept["mn4"] <= kept["dmn4"] < kept["dn4"] == 16
    page.locator(".stops span", has_text=re.compile("^MN4$")).click()
    expect(page.locator("#query rect.kept")).to_have_count(kept["mn4"])


def test_lines_end_on_the_partners_patch(page):
    teach(page)
    ask(page, "red")
    path = page.locator("#lines path").last
    place = path.get_attribute("data-place")
    end = path.evaluate("path => { const p = path.getPointAtLength(path.getTotalLength()), b = "
                        "path.ownerSVGElement.getBoundingClientRect(); return [p.x + b.left, p.y + b.top] }")
    box = page.locator(f"#partners rect[data-place='{place}']").bounding_box()
    assert abs(end[0] - box["x"] - box["width"] / 2) < 3
    assert abs(end[1] - box["y"] - box["height"] / 2) < 3


def test_patches_are_visited_with_the_arrow_keys(page):
    teach(page)
    ask(page, "red")
    page.locator("#query svg").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#patch-text")).to_contain_text("Most like a patch of red: similarity")
    expect(page.locator("#query rect.pointed")).to_have_attribute("data-place", "0")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#query rect.pointed")).to_have_attribute("data-place", "4")
    expect(page.locator("#lines path.pointed")).to_have_count(1)


def test_an_accepted_verdict_becomes_a_shot(page):
    teach(page)
    ask(page, "red")
    page.get_by_role("button", name="Yes, learn it too").click()
    expect(page.get_by_text("Added to red. This is what it says now.")).to_be_visible()
    counts(page, blue="3 pictures", red="4 pictures")


def test_a_rejected_verdict_can_found_a_new_class(page):
    teach(page)
    ask(page, "green")
    page.get_by_label("No, it is").select_option("something new …")
    page.get_by_label("Name of the new class").fill("green")
    page.get_by_role("button", name="Correct it").click()
    expect(page.get_by_text("Added to green. This is what it says now.")).to_be_visible()
    counts(page, blue="3 pictures", green="1 picture", red="3 pictures")
    expect(page.locator("#verdict")).to_have_text("green")


def test_a_column_takes_more_pictures_and_is_forgotten(page):
    page.get_by_role("button", name="Try it with fruit").click()
    page.get_by_label("More pictures of lime").set_input_files(files("green", 5, 6))
    expect(page.locator(".column", has_text="lime").locator("p")).to_have_text("5 pictures")
    page.get_by_role("button", name="Forget lime").click()
    expect(page.locator(".column h3")).to_have_text(["apple", "plum"])
    page.get_by_role("button", name="Forget apple").click()
    expect(page.get_by_role("alert")).to_contain_text("a classifier needs at least two")


def test_the_sample_is_one_click_and_asks_questions(page):
    page.get_by_role("button", name="Try it with fruit").click()
    page.get_by_role("button", name="plum", exact=True).click()
    expect(page.locator("#verdict")).to_have_text("plum")
    page.get_by_role("button", name="stone", exact=True).click()
    expect(page.locator("#verdict")).to_have_text("none of these")
    expect(page.locator("#confidence")).to_contain_text("nearest: ")
    page.get_by_role("button", name="Right, learn that too").click()
    expect(page.get_by_text("Learnt: none of these. This is what it says now.")).to_be_visible()


def test_pictures_can_be_dropped(page):
    teach(page)
    drop = """async (target, url) => { const data = new DataTransfer();
        data.items.add(new File([await (await fetch(url)).blob()], "x.jpg", {type: "image/jpeg"}));
        target.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})) }"""
    page.locator("#question-drop").evaluate(drop, "/api/samples/fruit/1")
    expect(page.locator("#verdict")).to_have_text("blue")
    page.locator(".column", has_text="blue").evaluate(drop, "/api/samples/fruit/1")
    expect(page.locator(".column", has_text="blue").locator("p")).to_have_text("4 pictures")


def test_a_model_is_saved_and_opened_again(page, tmp_path):
    teach(page)
    with page.expect_download() as saving:
        page.get_by_role("link", name="Save the model").click()
    saving.value.save_as(tmp_path / saving.value.suggested_filename)
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_label("Name of class 1")).to_have_value("")
    page.get_by_label("Open a model file").set_input_files(tmp_path / "classifier.dmn4")
    expect(page.locator(".column h3")).to_have_text(["blue", "red"])
    ask(page, "blue")
    expect(page.locator("#verdict")).to_have_text("blue")


def test_a_reload_keeps_the_classifier(page):
    teach(page)
    page.reload()
    expect(page.locator(".column h3")).to_have_text(["blue", "red"])


def test_what_is_no_picture_is_one_line_and_can_be_closed(page):
    teach(page)
    text = {"name": "notes.png", "mimeType": "image/png", "buffer": b"these are notes"}
    page.get_by_label("Choose pictures to classify").set_input_files(text)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("picture 1 cannot be read")
    alert.get_by_role("button", name="Close this message").click()
    expect(alert).to_be_hidden()
    page.get_by_label("Open a model file").set_input_files(text | {"name": "m.dmn4"})
    expect(alert).to_contain_text("cannot open the model file")


def test_a_question_that_fails_leaves_the_one_before_it(page):
    teach(page)
    ask(page, "red")
    broken = {"name": "b.png", "mimeType": "image/png", "buffer": picture("blue")[:-900]}
    page.get_by_label("Choose pictures to classify").set_input_files(broken)
    expect(page.get_by_role("alert")).to_contain_text("truncated")
    page.get_by_role("button", name="Yes, learn it too").click()
    expect(page.get_by_text("Added to red.")).to_be_visible()


def test_a_picture_that_breaks_off_leaves_the_draft_as_it_was(page):
    page.get_by_label("Pictures of class 1").set_input_files(files("red", 0, 1))
    broken = {"name": "b.png", "mimeType": "image/png", "buffer": picture("blue")[:-900]}
    page.get_by_label("Pictures of class 2").set_input_files(broken)
    page.get_by_role("button", name="Learn these classes").click()
    expect(page.get_by_role("alert")).to_contain_text("truncated")
    expect(page.get_by_role("button", name="Remove picture 2 of class 1")).to_be_visible()


def test_a_service_that_is_gone_is_told(page):
    teach(page)
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_label("Choose pictures to classify").set_input_files(files("red", 9))
    expect(page.get_by_role("alert")).to_contain_text("Is dmn4 serve still running?")


def test_a_large_photograph_is_scaled_before_it_is_sent(page, monkeypatch):
    teach(page)
    sent = []

    async def read(uploads, limits):
        sent.extend(await read_pictures(uploads, limits))
        return sent[-1:]

    monkeypatch.setattr(routes, "read_pictures", read)
    page.get_by_label("Choose pictures to classify").set_input_files(
        {"name": "large.png", "mimeType": "image/png", "buffer": picture("red", 1, size=(900, 1280))})
    expect(page.locator("#verdict")).to_have_text("red")
    assert [Image.open(io.BytesIO(one)).size for one in sent] == [(1024, 720)]


def test_progress_is_shown_while_it_learns(page):
    half = {"id": "x", "state": "learning", "done": 3, "total": 8, "error": None, "revision": 0, "classes": []}
    page.route("**/api/classifiers?wait=false", lambda route: route.fulfill(status=201, json=half | {"done": 0}))
    page.route("**/api/classifiers/x", lambda route: route.fulfill(json=half))
    page.get_by_label("Pictures of class 1").set_input_files(files("red", 0))
    page.get_by_label("Pictures of class 2").set_input_files(files("blue", 0))
    page.get_by_role("button", name="Learn these classes").click()
    expect(page.get_by_text("Looking at picture 4 of 8")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "3")
    expect(page.get_by_role("button", name="Learn these classes")).to_be_disabled()


def test_everything_is_reached_by_keyboard(page):
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to asking")).to_be_focused()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "fruit":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#questions button")).to_have_count(3)
    page.locator("#question-folder").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_have_text("apple")
    expect(page.locator("#answer")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Added to apple.")).to_be_visible()


def test_every_control_and_picture_has_a_name(page):
    teach(page)
    ask(page, "red")
    nameless = page.evaluate("""() =>
        [...document.querySelectorAll("button, a, input, select, summary, img, [tabindex='0']")]
        .filter(one => one.checkVisibility()).filter(one => !(one.getAttribute("aria-label") || one.innerText?.trim()
            || one.labels?.length || one.hasAttribute("alt"))).map(one => one.outerHTML)""")
    assert nameless == []
    outline = page.locator("main").aria_snapshot()
    for words in ('list "Classes"', 'heading "red" [level=2]', 'slider "Which patches', 'group "Is that right?"'):
        assert words in outline


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_sticks_out_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.get_by_role("button", name="Try it with fruit").click()
    page.get_by_role("button", name="apple", exact=True).click()
    expect(page.locator("#lines path").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    stacked = page.locator("#partners").bounding_box()["y"] > page.locator("#query .frame").bounding_box()["y"] + 100
    assert stacked == (width < 620)


def test_a_page_that_came_with_a_classifier_opens_it(browser, tmp_path):
    pictures = [picture(colour, seed) for colour in ("red", "blue") for seed in range(3)]
    FewShotClassifier(backbone=Patches()).fit(pictures, ["red"] * 3 + ["blue"] * 3).save(tmp_path / "colours.dmn4")
    with running(Patches(), tmp_path / "colours.dmn4") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        expect(page.get_by_role("heading", name="Ask")).to_be_visible()
        page.get_by_label("Choose pictures to classify").set_input_files(files("blue", 8))
        expect(page.locator("#verdict")).to_have_text("blue")
        page.get_by_role("button", name="Yes, learn it too").click()
        expect(page.get_by_text("Added to blue")).to_be_visible()
        expect(page.get_by_text("4 pictures")).to_be_visible()
        page.get_by_role("button", name="Start over").click()
        page.get_by_role("button", name="Ask colours").click()
        expect(page.get_by_text("3 pictures")).to_have_count(2)
        expect(page.get_by_role("heading", name="Ask")).to_be_visible()
        page.close()


def test_a_token_is_asked_for_once_and_kept_where_no_script_finds_it(browser, tmp_path):
    store = Store(str(tmp_path / "store"))
    token = store.tokens.add("ann")
    with running(Patches(), store=store) as address, browser.new_context() as context:
        one = context.new_page()
        one.set_default_timeout(15_000)
        one.goto(address)
        dialog = one.get_by_role("dialog", name="Your token for this service")
        expect(dialog).to_have_count(1)                       # several requests were refused, and ask together
        one.get_by_label("Your token for this service").last.fill("dmn4_000000000000_" + "x" * 43)
        one.get_by_role("button", name="Enter").click()
        expect(dialog.get_by_role("alert")).to_have_text("This token is unknown, or it was revoked.")
        one.keyboard.press("Escape")                          # without a token there is nothing to go back to
        one.get_by_label("Your token for this service").last.fill(token)
        one.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        teach(one, each=1)
        [cookie] = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"]) == (True, "Strict", token)
        assert one.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
        one.reload()
        expect(one.get_by_role("heading", name="Ask")).to_be_visible()
        expect(dialog).to_have_count(0)
        one.get_by_role("button", name="Sign out").click()
        expect(dialog).to_have_count(1)
        assert context.cookies() == []
    store.close()
