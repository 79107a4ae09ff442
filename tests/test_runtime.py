"""ONNX Runtime in place of PyTorch: equal maps, a cache that is only a cache, and PyTorch where it has to be."""

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from dmn4.backbones import build_backbone, onnxgraph, runtime
from dmn4.backbones.base import Backbone
from dmn4.backbones.folding import folded
from dmn4.backbones.runtime import InOnnx, frozen
from dmn4.errors import InputError

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture
def backbone(monkeypatch, tmp_path):
    """A small backbone that passes for one that ONNX Runtime makes faster, and a cache folder of its own."""
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    monkeypatch.setattr(runtime, "FASTER", (Backbone,))
    torch.manual_seed(0)
    return build_backbone("conv4-classic", width=0.25).eval()


@pytest.fixture
def network(backbone):
    return frozen(backbone)


def pictures(side=64, count=3):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def test_efficientnet_runs_in_onnx_runtime_and_other_networks_in_pytorch(monkeypatch, tmp_path):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    network = build_backbone("efficientnet_lite0", layer="14x14x112").eval()
    with torch.inference_mode():
        assert_close(frozen(network)(pictures()), network(pictures()), rtol=1e-4, atol=1e-4)
    assert isinstance(frozen(network), InOnnx)
    assert not isinstance(frozen(build_backbone("conv4")), InOnnx)


def test_maps_are_those_of_pytorch_and_the_same_alone_or_in_a_batch(network, backbone):
    with torch.inference_mode():
        for side in (64, 80):                                 # a graph for each
            maps = network(pictures(side))
            assert_close(maps, backbone(pictures(side)), rtol=1e-4, atol=1e-4)
            assert torch.equal(network(pictures(side)[1:2]), maps[1:2])


def test_a_graph_is_exported_once_and_found_again_by_copies(network, monkeypatch, tmp_path):
    with torch.inference_mode():
        maps = network(pictures())
        assert len(list((tmp_path / "onnx").glob("*.onnx"))) == 1
        monkeypatch.setattr(runtime, "exported", lambda *rest: pytest.fail("exported again"))
        for again in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
            assert torch.equal(again(pictures()), maps)


def test_other_weights_are_another_graph(network):
    other = build_backbone("conv4-classic", width=0.25).eval()
    assert frozen(other).key != network.key
    assert frozen(copy.deepcopy(other)).key == frozen(other).key


def test_a_damaged_graph_costs_time_and_nothing_else(network, backbone, tmp_path):
    with torch.inference_mode():
        network(pictures())
        path = next((tmp_path / "onnx").glob("*.onnx"))
        path.write_bytes(path.read_bytes()[:1000])
        again = frozen(backbone)
        with pytest.warns(UserWarning, match="ONNX Runtime cannot run the backbone, so PyTorch does"):
            assert_close(again(pictures()), folded(backbone)(pictures()))
        assert not path.exists()                              # the next start writes it anew


def test_a_cache_that_cannot_be_written_is_done_without(backbone, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "file"))
    with torch.inference_mode():
        assert frozen(backbone)(pictures()).shape == (3, 16, 4, 4)


def test_gradients_come_from_pytorch(network):
    images = pictures().requires_grad_()
    network(images).sum().backward()
    assert images.grad.abs().sum() > 0


def test_the_session_uses_the_threads_of_torch(network):
    before = torch.get_num_threads()
    with torch.inference_mode():
        network(pictures())
        torch.set_num_threads(before + 1)
        try:
            network(pictures())
        finally:
            torch.set_num_threads(before)
    used = [session.get_session_options().intra_op_num_threads for session in network.sessions.values()]
    assert used == [before, before + 1]


def test_the_runtime_can_be_chosen(backbone, monkeypatch):
    monkeypatch.setenv("DMN4_RUNTIME", "torch")
    assert not isinstance(frozen(backbone), InOnnx)
    monkeypatch.setenv("DMN4_RUNTIME", "tensorrt")
    with pytest.raises(InputError, match="unknown DMN4_RUNTIME 'tensorrt'; choose one of onnx, torch"):
        frozen(backbone)
    monkeypatch.setenv("DMN4_RUNTIME", "onnx")
    monkeypatch.setattr(runtime, "installed", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'dmn4\[onnx\]'"):
        frozen(backbone)


def test_without_onnx_runtime_pytorch_answers(backbone, monkeypatch):
    monkeypatch.setattr(runtime, "installed", lambda: False)
    assert not isinstance(frozen(backbone), InOnnx)
    monkeypatch.setattr(onnxgraph.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"not installed: pip install 'dmn4\[onnx\]'"):
        onnxgraph.open_session(b"")


def test_old_graphs_make_room(network, monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "GRAPHS", 2)
    with torch.inference_mode():
        for side in (32, 48, 64, 80):
            network(pictures(side, 1))
    assert sorted(path.stem.split("-")[1] for path in (tmp_path / "onnx").glob("*.onnx")) == ["64x64", "80x80"]
