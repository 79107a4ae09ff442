"""A classifier as an ONNX graph: the same verdicts in ONNX Runtime, and in a browser without any server."""

import functools
import http.server
import io
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_sight import main_ends
from torch.testing import assert_close
from toy_networks import model_folder, onnx_file
from toy_pictures import labelled

from dmn4.backbones import build_backbone
from dmn4.backbones.onnxgraph import exported, open_session
from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.export import export_classifier
from dmn4.classify.export_network import export_backbone
from dmn4.errors import InputError
from dmn4.images.looks import read_pixels
from dmn4.methods import METHODS
from dmn4.methods.descriptors import SupportPool
from dmn4.methods.neighbors import search, search_plainly, settle, settle_plainly

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
EXPORTED = [name for name in ("dmn4", "mn4", "dn4", "dmn4-linear", "protonet") if name in METHODS]
BROWSER = Path(__file__).parents[1] / "examples" / "browser"


def fitted(method="dmn4"):
    return FewShotClassifier(method, "conv4-classic", weights="cub").fit(*labelled(3))


# --------------------------------------------------------------------------------------- the search as a plain graph

def test_the_plain_search_finds_what_the_blocked_one_finds():
    generator = torch.Generator().manual_seed(0)
    query = torch.randint(-2, 3, (3, 7, 4), generator=generator).float()      # with ties
    rows = torch.randint(-2, 3, (40, 4), generator=generator).float()
    pool = SupportPool(rows, [9, 30, 1], torch.zeros(40), torch.arange(40))
    blocked, plain = search(query, pool), search_plainly(query, pool)
    assert_close(plain.class_best, blocked.class_best)
    assert torch.equal(plain.partner, blocked.partner)
    assert torch.equal(plain.answered, blocked.answered)


def test_plain_rivals_are_settled_alike():
    generator = torch.Generator().manual_seed(0)
    chosen, claim = (torch.randint(0, 4, (50, 9), generator=generator) for _ in range(2))
    assert torch.equal(settle_plainly(chosen, claim.float()), settle(chosen, claim.float(), 4))


# --------------------------------------------------------------------------------------------------------- the graph

@pytest.mark.parametrize("method", EXPORTED)
def test_a_graph_says_what_the_classifier_says(method, tmp_path):
    classifier = fitted(method)
    pictures = labelled(10, ("red", "green", "blue", "grey"), seed=7, noise=90)[0]
    agreement = export_classifier(classifier, tmp_path / "a.onnx", pictures)
    assert agreement.same == agreement.pictures == 40
    assert agreement.furthest < 1e-4


def test_a_graph_gives_the_patches_that_voted(tmp_path):
    classifier, picture = fitted(), labelled(1, seed=3)[0][0]
    export_classifier(classifier, tmp_path / "a.onnx", [])
    pixels = read_pixels([picture], classifier.parts_.transform)
    kept, = open_session(str(tmp_path / "a.onnx")).run(["kept"], {"pixels": pixels.numpy()})
    explanation = classifier.explain(picture)
    assert np.array_equal(kept.flatten(), explanation.kept.flatten().numpy())
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["classes"] == ["blue", "green", "red"]
    assert facts["image_size"] == 84


def test_more_classes_than_a_short_row_holds(tmp_path):
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (20, 20, 3), dtype=np.uint8) for _ in range(80)]
    classifier = FewShotClassifier("dmn4", "conv4-classic", weights="cub").fit(pictures, [n // 2 for n in range(80)])
    agreement = export_classifier(classifier, tmp_path / "a.onnx", pictures[:20])
    assert agreement.same == agreement.pictures == 20


def test_a_backbone_goes_out_and_comes_back(tmp_path):
    path = tmp_path / "conv4.onnx"
    export_backbone("conv4-classic", path, "cub")
    back, own = build_backbone(f"onnx:{path}"), build_backbone("conv4-classic", "cub").eval()
    assert_close((back.mean, back.std, back.image_size), (own.mean, own.std, own.image_size))
    images = torch.randn(2, 3, 84, 84, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_close(back(images), own(images), rtol=1e-4, atol=1e-4)


def test_a_backbone_goes_out_in_bytes_and_says_how_alike_it_is(tmp_path, capsys):
    for number, picture in enumerate(labelled(4, noise=90)[0]):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    for name, more in (("float", []), ("bytes", ["--int8", str(tmp_path)])):
        path = str(tmp_path / f"{name}.onnx")
        main_ends(["export", "--backbone", "conv4-classic", "--weights", "cub", "-o", path, *more])
    alike = float(re.search(r"cosine with itself before is ([0-9.]+)", capsys.readouterr().out)[1])
    assert 0.9 < alike < 1
    sizes = [(tmp_path / f"{name}.onnx").stat().st_size for name in ("float", "bytes")]
    assert sizes[1] < 0.4 * sizes[0]
    classifier = FewShotClassifier(backbone=f"onnx:{tmp_path / 'bytes.onnx'}").fit(*labelled(3))
    assert classifier.predict(labelled(1, seed=5)[0]).tolist() == labelled(1, seed=5)[1]


def test_the_default_network_goes_out_with_all_that_the_default_method_reads(tmp_path):
    path = tmp_path / "lite0.onnx"
    export_backbone("efficientnet_lite0", path, image_size=64)
    ours, back = (FewShotClassifier(backbone=name, image_size=64).fit(*labelled(3))
                  for name in ("efficientnet_lite0", f"onnx:{path}"))
    assert back.parts_.method_options == ours.parts_.method_options
    queries = labelled(2, seed=3)[0]
    assert_close(torch.from_numpy(back.decision_function(queries)), torch.from_numpy(ours.decision_function(queries)),
                 rtol=1e-3, atol=1e-3)


def test_a_classifier_on_a_model_of_hugging_face_goes_out(tmp_path):
    pytest.importorskip("transformers")
    classifier = FewShotClassifier(backbone=f"hf:{model_folder(tmp_path)}", image_size=56).fit(*labelled(3))
    agreement = export_classifier(classifier, tmp_path / "a.onnx", labelled(3, seed=5)[0])
    assert agreement.same == agreement.pictures


def test_what_cannot_go_out_is_one_line(tmp_path, capsys):
    with pytest.raises(InputError, match="with method 'odm' cannot be written as an ONNX graph"):
        export_classifier(fitted("odm"), tmp_path / "a.onnx")
    path = onnx_file(tmp_path / "eye.onnx", torch.nn.Conv2d(3, 5, 8, stride=8))
    with pytest.raises(InputError, match="is an ONNX file already"):
        export_backbone(f"onnx:{path}", tmp_path / "a.onnx")
    with pytest.raises(InputError, match="holds 0, about 100 are best"):
        export_backbone("conv4-classic", tmp_path / "a.onnx", "cub", int8=tmp_path)
    for arguments, message in (["a.dmn4", "--int8", "b"], "--int8 goes with --backbone"), (
            [], "give a model file, or --backbone NAME"), (["a.dmn4"], "-o is missing"), (
            ["a.dmn4", "-o", "a.txt"], "-o is a.txt; name the file"), (["no.dmn4", "-o", "a.onnx"], "no model file"):
        main_ends(["export", *arguments])
        assert message in capsys.readouterr().err


def test_the_command_writes_a_graph_and_says_how_it_agrees(tmp_path, capsys):
    fitted().save(tmp_path / "a.dmn4")
    main_ends(["export", str(tmp_path / "a.dmn4"), "-o", str(tmp_path / "a.onnx")])
    said = capsys.readouterr().out
    assert "opset 18; bytes (1, 84, 84, 3)" in said
    assert "9 of 9 verdicts as in PyTorch" in said
    main_ends(["export", "--backbone", "conv4-classic", "--weights", "cub", "-o", str(tmp_path / "b.onnx")])
    assert "(B, 3, 84, 84) in, maps out" in capsys.readouterr().out


def test_a_failing_export_prints_nothing(capsys):
    class Odd(torch.nn.Module):
        def forward(self, images):
            return images.mT

    with pytest.raises(Exception, match="mT"):
        exported(Odd(), {"images": torch.zeros(1, 3, 4, 4)}, ["maps"])
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------------------------- the browser

class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *words):
        pass


@pytest.fixture
def site(tmp_path):
    """A folder with the example page and what it needs from npm, and its address."""
    if not shutil.which("npm"):
        pytest.skip("the example page is not tested: there is no npm")
    for name in ("index.html", "package.json"):
        shutil.copy(BROWSER / name, tmp_path)
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=tmp_path, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the example page is not tested: npm cannot fetch onnxruntime-web")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}/index.html"
    server.shutdown()


@pytest.mark.slow
def test_the_example_page_names_a_picture_in_the_browser_as_python_does(site):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("the example page is not tested: there is no chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    folder, address = site
    classifier = fitted()
    export_classifier(classifier, folder / "classifier.onnx", [])
    content = io.BytesIO()
    picture = Image.fromarray(labelled(1, seed=3)[0][2]).resize((84, 84))     # no scaling is left to the browser
    picture.save(content, "PNG")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(address)
        page.get_by_text("Ready.").wait_for(timeout=60_000)
        page.set_input_files("input", {"name": "a.png", "mimeType": "image/png", "buffer": content.getvalue()})
        page.locator("tr").first.wait_for(timeout=60_000)
        shown, rows = page.get_by_role("status").inner_text(), page.locator("tr").all_inner_texts()
        browser.close()
    expected, = classifier.predict([picture], reject=True)
    sure = classifier.predict_proba([picture])[0]
    assert shown == (expected or "none of these")
    assert rows[0].split()[:2] == [classifier.classes_[sure.argmax()], f"{100 * sure.max():.1f}"]
