"""Backbones: sizes and parameter counts of the published networks, drops, weights, and what every one promises."""

import inspect
import json
import math

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from dmn4.backbones import BACKBONES, FORMS, build_backbone, loading
from dmn4.backbones.dropblock import drop_squares, seed_chance, squares
from dmn4.backbones.folding import folded
from dmn4.backbones.resnet12 import ABLATIONS, ablation_sizes
from dmn4.errors import InputError

TINY = {"width": 0.1}                                         # one tenth of the channels


def parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


def map_shape(name, side=84, **options):
    """(C, H, W) of the map for square images, without arithmetic."""
    with torch.device("meta"):
        return tuple(build_backbone(name, **options)(torch.empty(2, 3, side, side)).shape[1:])


def pictures(side, count=2, seed=0, dtype=torch.float32):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("name", BACKBONES)
def test_folded_batch_norms_leave_the_maps_as_they_are(name):
    torch.manual_seed(0)
    options = {"width": 0.1} if "width" in inspect.signature(BACKBONES[name]).parameters else {}
    network = build_backbone(name, **options).double().eval()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):           # as if it had been trained
            for values in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                values.data.uniform_(0.5, 1.5)
    images = pictures(64, dtype=torch.float64)
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    with torch.no_grad():
        assert_close(folded(network)(images), network(images))
    assert_close(network.state_dict(), before)
    assert folded(network).out_channels == network.out_channels


def test_no_batch_norm_of_efficientnet_is_left_when_folded():
    network = folded(build_backbone("efficientnet_lite0"))
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in network.modules())


def test_networks_from_elsewhere_are_not_folded():
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    assert folded(network) is network


PUBLISHED = [                                                 # parameters, map of an 84-pixel image
    ("conv4", {}, 112_704, (64, 19, 19)),
    ("conv4", {"window": 7, "step": 3}, 112_704, (64, 5, 5)),
    ("conv4-dn4", {}, 112_832, (64, 21, 21)),
    ("conv4-classic", {}, 113_088, (64, 5, 5)),
    ("conv4-classic", FORMS["conv4-classic"]["mcl"], 112_832, (64, 5, 5)),
    ("conv4-classic", FORMS["conv4-classic"]["feat"], 113_088, (64, 1, 1)),
    ("conv4-classic", FORMS["conv4-classic"]["rfs"], 113_088, (64, 1, 1)),
    ("conv4-classic", FORMS["conv4-classic"]["covariance"], 112_832, (64, 10, 10)),
    ("conv4-classic", FORMS["conv4-classic"]["metaoptnet"], 112_832, (64, 5, 5)),
    ("conv4-classic", FORMS["conv4-classic"]["dc"], 260_928, (128, 5, 5)),
    ("resnet12", {}, 12_424_320, (640, 5, 5)),
    ("resnet12", FORMS["resnet12"]["pretrain"], 12_424_320, (640, 5, 5)),
    ("resnet12", FORMS["resnet12"]["pretrain-cifar"], 12_424_320, (640, 5, 5)),
    ("resnet12", FORMS["resnet12"]["meta-baseline"], 7_996_800, (512, 5, 5)),
    ("resnet12", FORMS["resnet12"]["tapnet"], 7_996_800 + 8 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512), (512, 6, 6)),
    ("wrn28-10", {}, 36_481_600, (640, 21, 21)),
    ("wrn28-10", FORMS["wrn28-10"]["mcl"], 36_481_600 - 10_096 + 1_280, (640, 5, 5)),   # biases go, a batch norm comes
    ("wrn28-10", FORMS["wrn28-10"]["feat"], 36_481_600 + 1_280, (640, 1, 1)),
]


@pytest.mark.parametrize(("name", "options", "count", "shape"), PUBLISHED)
def test_published_networks_have_their_parameters_and_map(name, options, count, shape):
    with torch.device("meta"):
        assert parameters(build_backbone(name, **options)) == count
    assert map_shape(name, **options) == shape


def test_every_published_form_is_in_the_table_above():
    assert all((name, options) in [row[:2] for row in PUBLISHED]
               for name, forms in FORMS.items() for options in forms.values())


def test_resnet12_blocks_have_their_published_parameters():
    assert [parameters(block) for block in build_backbone("resnet12").blocks] == [76_160, 564_480, 2_357_760, 9_425_920]


def test_the_descriptor_size_table_holds_at_80_pixels_and_r_is_441_at_84():
    for label, (r, d) in ablation_sizes(80).items():
        assert label.split(": ")[1] == f"{r} x {d}"
    assert {r for r, _ in ablation_sizes(84).values()} == {25, 100, 441}
    assert len(ABLATIONS) == 9


def test_width_multiplies_the_channels():
    assert map_shape("conv4", width=0.5) == (32, 19, 19)
    assert map_shape("resnet12", width=0.25) == (160, 5, 5)
    assert map_shape("wrn28-10", width=0.1) == (64, 21, 21)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name.startswith("conv4")])
def test_pooling_before_the_activation_changes_nothing(name):
    backbone = build_backbone(name).eval()
    images = pictures(24)
    maps = images
    for block in backbone.blocks:                             # the published order: activation, then pool
        pools = [layer for layer in block if isinstance(layer, torch.nn.MaxPool2d)]
        for layer in [layer for layer in block if layer not in pools] + pools:
            maps = layer(maps)
    assert_close(backbone(images), maps)


def test_conv4_maps_are_signed_unless_they_end_in_relu():
    assert (build_backbone("conv4").eval()(pictures(16)) < 0).any()
    assert (build_backbone("conv4-classic", **FORMS["conv4-classic"]["covariance"]).eval()(pictures(16)) < 0).any()
    assert (build_backbone("conv4-classic").eval()(pictures(16)) >= 0).all()


def test_conv4_averages_windows_of_places():
    plain, broad = build_backbone("conv4").eval(), build_backbone("conv4", window=7, step=6).eval()
    broad.load_state_dict(plain.state_dict())
    fine, coarse = plain(pictures(84)), broad(pictures(84))
    assert coarse.shape[2:] == (3, 3)
    torch.testing.assert_close(coarse[:, :, 1, 2], fine[:, :, 6:13, 12:19].mean((2, 3)))
    assert broad(pictures(broad.minimum)).shape[2:] == (1, 1)


@torch.no_grad()
@pytest.mark.parametrize("name", ["conv4", "conv4-classic"])
def test_conv4_bends_unit_descriptors(name):
    plain, bent = build_backbone(name).eval(), build_backbone(name, power=0.5).eval()
    bent.load_state_dict(plain.state_dict())
    before, after = plain(pictures(84))[1, :, 2, 3].tolist(), bent(pictures(84))[1, :, 2, 3].tolist()
    length = math.hypot(*before)
    for value, found in zip(before, after, strict=True):
        root = math.copysign(math.sqrt(abs(value) / length), value)
        assert_close(found, root if value else 0.0, rtol=1e-4, atol=1e-3)


def test_a_bent_map_has_finite_gradients_where_relu_cut_it_off():
    bent = build_backbone("conv4-classic", power=0.5)
    maps = bent(pictures(84))
    assert maps.eq(0).any()
    maps.sum().backward()
    assert all(one.grad.isfinite().all() for one in bent.parameters())


def test_conv4_starts_xavier_uniform():
    weight = build_backbone("conv4").blocks[1][0].weight      # fans are 9 * 64 both ways
    bound = math.sqrt(6 / (9 * 64 + 9 * 64))
    assert 0.99 * bound < weight.abs().max() <= bound
    assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.02, atol=0)


def test_resnet12_starts_kaiming_normal_by_fan_out():
    weight = build_backbone("resnet12").blocks[1].path[0][0].weight   # 64 -> 160
    assert_close(weight.std().item(), math.sqrt(2 / (1 + 0.01**2) / (9 * 160)), rtol=0.02, atol=0)
    norm = build_backbone("resnet12").blocks[1].path[0][1]
    assert norm.weight.eq(1).all()
    assert norm.bias.eq(0).all()


def test_seed_chance_reaches_its_published_values_after_the_ramp():
    assert_close(seed_chance(0.1, 5, 10, 10, torch.tensor(40_000)).item(), 0.1 / 25 * 100 / 36)    # 0.011111
    assert_close(seed_chance(0.1, 5, 5, 5, torch.tensor(90_000)).item(), 0.1)
    assert_close(seed_chance(0.1, 5, 5, 5, torch.tensor(10_000)).item(), 0.025)


def test_a_seed_drops_the_square_below_and_right_of_it():
    seeds = torch.zeros(1, 1, 4, 4)
    seeds[0, 0, 0, 1] = 1
    seeds[0, 0, 3, 3] = 1
    assert squares(seeds, 2)[0, 0].int().tolist() == [[0, 1, 1, 0, 0],
                                                      [0, 1, 1, 0, 0],
                                                      [0, 0, 0, 0, 0],
                                                      [0, 0, 0, 1, 1],
                                                      [0, 0, 0, 1, 1]]


def test_squares_agree_with_plain_loops():
    seeds = (torch.rand(2, 3, 6, 4, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    expected = torch.zeros(2, 3, 8, 6)
    for b, c, y, x in seeds.nonzero().tolist():
        expected[b, c, y:y + 3, x:x + 3] = 1
    assert squares(seeds, 3).equal(expected)


def test_dropped_maps_keep_their_sum_and_lose_whole_channels_when_the_square_fills_the_map():
    torch.manual_seed(0)
    maps = drop_squares(torch.ones(4, 64, 5, 5), 0.1, 5, torch.tensor(40_000))
    alive = maps.flatten(2).amax(2) > 0                       # (4, 64)
    assert_close(maps.sum(), torch.tensor(4 * 64 * 25.0))
    assert maps.flatten(2).gt(0).all(2).equal(alive)
    assert 0.8 < alive.float().mean() < 0.97


def test_squares_shrink_to_a_map_smaller_than_they_are():
    assert drop_squares(torch.ones(2, 8, 2, 3), 0.1, 5, torch.tensor(40_000)).shape == (2, 8, 2, 3)


def test_dropblock_grows_with_the_training_passes_that_batch_norm_counts():
    backbone = build_backbone("resnet12", blocks="4-4-256", drop="0-0-0.5", square=1).train()
    fresh = (backbone(pictures(32)) == 0).float().mean()
    backbone.load_state_dict({key: torch.tensor(40_000) if "tracked" in key else value
                              for key, value in backbone.state_dict().items()})
    assert fresh == 0
    assert 0.4 < (backbone(pictures(32)) == 0).float().mean() < 0.6


@pytest.mark.parametrize(("name", "form"), [("resnet12", "tapnet"), ("wrn28-10", "feat")])
def test_drops_follow_the_torch_generator_and_rest_in_eval_mode(name, form):
    backbone = build_backbone(name, **FORMS[name][form], **TINY)
    images = pictures(32)
    torch.manual_seed(1)
    first, other = backbone(images), backbone(images)
    torch.manual_seed(1)
    assert_close(backbone(images), first)
    assert not first.allclose(other)
    assert backbone.eval()(images).equal(backbone(images))


# what every backbone promises, tested for a new entry the day it is added

@pytest.fixture(params=BACKBONES)
def backbone(request):
    torch.manual_seed(0)
    narrow = {"width": 0.25} if "width" in inspect.signature(BACKBONES[request.param]).parameters else {}
    return build_backbone(request.param, **narrow).eval()


def test_maps_have_out_channels_at_any_size_from_the_minimum_on(backbone):
    for height, width in [(backbone.minimum, backbone.minimum), (backbone.minimum + 5, backbone.minimum + 2)]:
        batch, channels, rows, columns = backbone(torch.randn(1, 3, height, width)).shape
        assert (batch, channels) == (1, backbone.out_channels)
        assert min(rows, columns) >= 1


def test_an_image_below_the_minimum_is_refused_by_its_size(backbone):
    side = backbone.minimum - 1
    if side:
        with pytest.raises(RuntimeError):                     # the network itself cannot go lower
            backbone.features(torch.randn(2, 3, side, side))
        with pytest.raises(InputError, match=f"{side} x {side} pixels; this backbone needs at least {side + 1} x "):
            backbone(torch.randn(2, 3, side, side))
    with pytest.raises(InputError, match=r"0 x 7 pixels"):
        backbone(torch.randn(2, 3, 0, 7))


def test_what_is_not_a_batch_of_float_images_is_refused(backbone):
    with pytest.raises(InputError, match=r"shape \(3, 84, 84\)"):
        backbone(torch.randn(3, 84, 84))
    with pytest.raises(InputError, match=r"shape \(1, 1, 84, 84\)"):
        backbone(torch.randn(1, 1, 84, 84))
    with pytest.raises(InputError, match=r"torch\.uint8"):
        backbone(torch.zeros(1, 3, 84, 84, dtype=torch.uint8))


def test_gradient_reaches_every_parameter(backbone):
    backbone(pictures(24)).square().sum().backward()
    assert [name for name, p in backbone.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_an_image_has_the_same_map_alone_or_in_a_batch(backbone):
    images = pictures(24, count=3).double()
    assert_close(backbone.double()(images)[1:2], backbone(images[1:2]))


def test_the_memory_layout_of_the_images_does_not_matter(backbone):
    images = pictures(24)
    assert_close(backbone(images.contiguous(memory_format=torch.channels_last)), backbone(images))


def test_eval_mode_has_no_randomness_and_no_memory(backbone):
    images = pictures(24)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    assert backbone(images).equal(backbone(images))
    assert all(value.equal(before[key]) for key, value in backbone.state_dict().items())


def test_preferred_preprocessing_is_on_pixels_from_0_to_1(backbone):
    assert all(0 < value < 1 for value in (*backbone.mean, *backbone.std))
    assert len(backbone.mean) == len(backbone.std) == 3
    assert backbone.image_size >= backbone.minimum


def test_weights_survive_a_file(backbone, tmp_path):
    about = {"backbone": backbone.name, "options": json.dumps(backbone.options)}
    save_file(backbone.state_dict(), tmp_path / "a.safetensors", about)
    loaded = build_backbone(backbone.name, weights=tmp_path / "a.safetensors").eval()
    assert loaded(pictures(24)).equal(backbone(pictures(24)))


# names, options and files that are wrong

def test_an_unknown_backbone_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="unknown backbone 'conv5'; choose one of conv4, conv4-dn4"):
        build_backbone("conv5")


@pytest.mark.parametrize("name", BACKBONES)
def test_an_unknown_option_is_answered_with_the_known_ones(name):
    with pytest.raises(InputError, match=f"backbone '{name}' has no option 'depth'; it takes (width|layer)"):
        build_backbone(name, depth=4)


@pytest.mark.parametrize(("name", "options", "message"), [
    ("conv4", {"width": 0}, "width is 0; a factor above 0"),
    ("conv4", {"last": "relu"}, "unknown last block 'relu'; choose one of bare, signed, full"),
    ("conv4", {"pooled": "sum"}, "unknown pooled 'sum'; choose one of map, max, mean"),
    ("conv4", {"window": 0}, "window is 0 and step 1; both count places"),
    ("conv4", {"power": 0}, "power is 0; a number above 0 is needed"),
    ("conv4", {"window": "wide"}, "window of backbone 'conv4' is 'wide'; a number is needed"),
    ("conv4", {"blocks": "64-64"}, "the channels of four blocks joined by '-' are needed"),
    ("resnet12", {"blocks": "64-many"}, "blocks is '64-many'; numbers joined by '-'"),
    ("resnet12", {"drop": "0.1-0.2"}, "drop is '0.1-0.2'; one rate from 0 to below 1, or 4 of them"),
    ("resnet12", {"drop": 1.5}, "drop is 1.5; one rate"),
    ("wrn28-10", {"last": "full"}, "unknown last layer 'full'; choose one of bare, relu"),
])
def test_a_wrong_value_is_named(name, options, message):
    with pytest.raises(InputError, match=message):
        build_backbone(name, **options)


def stored(tmp_path, name, about=None, **options):
    backbone = build_backbone(name, **options)
    path = tmp_path / "a.safetensors"
    save_file(backbone.state_dict(), path, about)
    return path


def test_options_of_the_file_need_not_be_repeated(tmp_path):
    path = stored(tmp_path, "resnet12", {"backbone": "resnet12", "options": json.dumps(TINY | {"drop": 0.1})}, **TINY)
    backbone = build_backbone("resnet12", weights=str(path), drop=0.0)
    assert backbone.out_channels == 64
    assert backbone.options == TINY | {"drop": 0.0}


def test_shipped_weights_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "SHIPPED", tmp_path)
    path = stored(tmp_path, "conv4", {"backbone": "conv4", "options": "{}"})
    path.rename(tmp_path / "conv4-birds.safetensors")
    assert build_backbone("conv4", weights="birds").name == "conv4"
    with pytest.raises(InputError, match=r"has no weights 'fish'; choose one of birds, a .safetensors file"):
        build_backbone("conv4", weights="fish")


def test_weights_of_another_backbone_are_refused(tmp_path):
    path = stored(tmp_path, "resnet12", {"backbone": "resnet12"}, **TINY)
    with pytest.raises(InputError, match=r"a\.safetensors' were trained with backbone 'resnet12', not 'conv4'"):
        build_backbone("conv4", weights=path)


def test_weights_without_a_description_are_compared_tensor_by_tensor(tmp_path):
    assert build_backbone("conv4-dn4", weights=stored(tmp_path, "conv4-dn4"))
    with pytest.raises(InputError, match=r"do not fit backbone 'conv4'.*'blocks.3.1.bias' is 64, not absent"):
        build_backbone("conv4", weights=stored(tmp_path, "conv4-dn4"))
    with pytest.raises(InputError, match=r"'blocks.0.0.weight' is 32 x 3 x 3 x 3, not 64 x 3 x 3 x 3"):
        build_backbone("conv4", weights=stored(tmp_path, "conv4", width=0.5))


def test_a_damaged_a_foreign_and_a_missing_file_are_one_clear_line(tmp_path):
    path = stored(tmp_path, "conv4")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"cannot read weights .*a.safetensors': damaged"):
        build_backbone("conv4", weights=path)
    path.write_bytes(b"a pickle, perhaps")
    with pytest.raises(InputError, match="not a safetensors file"):
        build_backbone("conv4", weights=path)
    with pytest.raises(InputError, match=r"no weights file .*b.safetensors"):
        build_backbone("conv4", weights=tmp_path / "b.safetensors")
