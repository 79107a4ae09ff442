"""The report in a real browser: filters, pages, evidence, and corrections that `dmn4 fit --labels` takes."""

import pytest
from test_cli_photos import home, photos, run  # noqa: F401  the fixture
from test_page import browser, expect  # noqa: F401  the fixture; skips these tests too where there is no browser

from dmn4.data.folders import read_folder
from dmn4.sorting import report
from dmn4.sorting.corrections import split, with_labels


@pytest.fixture(scope="module")
def asked(home, tmp_path_factory):  # noqa: F811
    """Pictures in class folders and beside them, one of them with a name that a spreadsheet would compute."""
    folder = tmp_path_factory.mktemp("asked")
    for colour in ("red", "green", "blue"):
        photos(folder / colour, colour, 3, seed=2)
    photos(folder / "stranger", "grey", 2)
    (folder / "red" / "red 0.png").rename(folder / "red" / '=1+1, "a".png')
    return folder


@pytest.fixture(params=[(1400, 900), (390, 844)], ids=["desktop", "phone"])
def page(request, home, asked, browser, tmp_path, capsys, monkeypatch):  # noqa: F811
    """The report of these pictures, its evidence for six of them; its scripts made no mistake."""
    monkeypatch.setattr(report, "DOUBTFUL", 6)
    run(["predict", home / "colours.dmn4", asked, home / "inbox", "--report", tmp_path / "report.html"], capsys)
    width, height = request.param
    one = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    one.set_default_timeout(15_000)
    mistakes = []
    one.on("pageerror", lambda error: mistakes.append(str(error)))
    one.goto((tmp_path / "report.html").as_uri())
    yield one
    assert not mistakes
    assert one.evaluate("document.documentElement.scrollWidth") <= width
    one.close()


def test_filters_and_cells_of_the_matrix_choose_pictures(page):
    cards = page.locator(".card")
    expect(cards).to_have_count(18)
    page.get_by_role("button", name="wrong").click()
    wrong = cards.count()
    assert wrong >= 2                                                    # nothing was refused: both strangers
    page.get_by_role("button", name="all").click()
    page.get_by_label("true class").select_option("-1")
    expect(cards).to_have_count(2)
    page.get_by_role("button", name="red, taken for red").click()
    expect(page.get_by_label("true class")).to_have_value("2")
    assert 0 < cards.count() <= 3


def test_a_picture_opens_with_its_evidence_or_beside_labelled_ones(page):
    page.locator(".card").first.click()
    expect(page.locator("#panel")).to_contain_text("patches voted; all together would say")
    expect(page.locator("#panel svg image").first).to_be_visible()
    assert page.locator("#panel svg image").count() > 4
    page.keyboard.press("Escape")
    page.get_by_label("order").select_option("sure")
    page.locator(".card:not(:has(.broken))").first.click()
    expect(page.locator("#panel .whole")).to_be_visible()
    expect(page.locator("#panel .class img").first).to_be_visible()


def test_corrections_become_a_table_that_fit_takes(page, asked, tmp_path):
    page.get_by_label("order").select_option("name")
    for name, key in (('=1+1, "a".png', "y"), ("grey 0.png", "u")):
        page.locator(f".card:has(img[alt$='{name}'])").click()
        page.keyboard.press(key)
    if page.get_by_role("button", name="Close").is_visible():
        page.keyboard.press("Escape")
    page.locator(".card:has(img[alt$='blue 1.png'])").first.click()
    page.get_by_label("Another class").fill("=sky")
    page.get_by_label("Another class").press("Enter")
    page.locator("#panel .answers button").first.click()
    if page.get_by_role("button", name="Close").is_visible():
        page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Undo").click()
    page.reload()                                                        # what was corrected is still there
    expect(page.locator("#corrected")).to_have_text("3 corrections")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the corrections").click()
    download.value.save_as(tmp_path / "corrections.csv")
    images, ruled_out = split(with_labels(read_folder(asked), tmp_path / "corrections.csv"))
    labels = {path.name: images.classes[label] for path, label in zip(images.images, images.labels, strict=True)}
    assert labels['=1+1, "a".png'] == "red"
    assert labels["blue 1.png"] == "=sky"
    assert "grey 0.png" not in labels
    assert "grey 0.png" in {path.name for path, label in ruled_out if label is None}
    assert len(images) == 11 - 1
