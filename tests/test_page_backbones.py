"""The page with a network of Hugging Face: teach, ask and see why in a real browser."""

import pytest
from test_page import ask, browser, teach  # noqa: F401  a fixture among them
from toy_networks import model_folder
from toy_service import running

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("transformers")


def test_pictures_are_taught_and_asked_about_with_a_model_of_hugging_face(browser, tmp_path):
    with running(f"hf:{model_folder(tmp_path / 'dino')}:image_size=56") as address:
        page = browser.new_page()
        page.goto(address)
        teach(page)
        ask(page, "red")
        playwright.expect(page.locator("#answer")).to_contain_text("red")
        playwright.expect(page.locator("#about")).to_contain_text("hf:")
        page.close()
