import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from toy_episodes import noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.e3bm import E3BM, centred, head_slope, merge_kernels, scale_kernels
from dmn4.methods.vectors import class_means, cosines


def pooled_episode() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    support, labels, query = noise_episode()
    return centred(support.mean((2, 3))), labels, centred(query.mean((2, 3)))


def head_after(steps: int, rate: float = 0.1) -> torch.Tensor:
    """The weights after plain gradient steps from the class means."""
    rows, labels, _ = pooled_episode()
    weight = class_means(rows, labels)
    for _ in range(steps):
        weight = weight.requires_grad_()
        slope = torch.autograd.grad(F.cross_entropy(8 * cosines(rows, weight), labels), weight)[0]
        weight = (weight - rate * slope).detach()
    return weight


def test_one_idle_step_is_eight_times_the_cosine_to_the_prototype():
    rows, labels, asked = pooled_episode()
    method = E3BM(4, steps=1, rate=0, strength=0)
    assert_close(method(*noise_episode()), 8 * cosines(asked, class_means(rows, labels)))


def test_all_share_on_the_last_step_gives_the_classifier_after_it():
    asked = pooled_episode()[2]
    assert_close(E3BM(4, steps=6, strength=0)(*noise_episode()), 8 * cosines(asked, head_after(6)))


def test_equal_shares_average_the_classifiers_of_all_steps():
    asked = pooled_episode()[2]
    logits = [8 * cosines(asked, head_after(step)) for step in (1, 2, 3)]
    assert_close(E3BM(4, steps=3, start="equal", strength=0)(*noise_episode()), sum(logits) / 3)


def test_generated_values_follow_the_state_of_the_step():
    rows, labels, asked = pooled_episode()
    method = E3BM(4, steps=1, strength=0.01)
    start = class_means(rows, labels)
    slope = head_slope(start, rows, labels, 8)
    state = torch.cat([rows.mean(0), slope.mean(0)])
    rate, share = 0.1 + 0.01 * method.rates.layer(state)[0], 1 + 0.01 * method.shares.layer(state)[0]
    assert_close(method(*noise_episode()), share * 8 * cosines(asked, start - rate * slope))


def test_the_generators_hardly_matter_before_training():
    plain, fresh = E3BM(4, steps=5, strength=0), E3BM(4, steps=5)
    assert_close(fresh(*noise_episode()), plain(*noise_episode()), atol=1e-3, rtol=0)      # of scores up to 8


def test_gradients_reach_the_support_only_through_the_generators():
    support, labels, query = noise_episode()
    support, query = support.requires_grad_(), query.requires_grad_()
    E3BM(4, steps=2, strength=0)(support, labels, query).square().sum().backward()
    assert not support.grad.any()
    assert query.grad.any()
    E3BM(4, steps=2, strength=1)(support, labels, query).square().sum().backward()
    assert support.grad.any()


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_its_steps_work_where_gradients_are_off(guard):
    support, labels, query = noise_episode()
    method = E3BM(4, steps=3)
    with guard():
        scores = method(support * 1, labels * 1, query * 1)
    assert not scores.requires_grad
    assert_close(scores, method(support, labels, query).detach())
    assert all(parameter.grad is None for parameter in method.parameters())


def test_an_unknown_start_is_named():
    with pytest.raises(InputError, match="unknown start 'LAS'; choose one of last, equal"):
        E3BM(4, start="LAS")


def test_it_takes_at_least_one_step():
    with pytest.raises(InputError, match="steps is 0; it must be above 0"):
        E3BM(4, steps=0)


def backbone() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1, bias=False)).eval()


def test_scaled_kernels_start_as_the_same_network():
    images = torch.randn(2, 3, 5, 5)
    assert torch.equal(scale_kernels(backbone())(images), backbone()(images))


def test_only_factors_and_norms_learn():
    learning = {name: p.shape for name, p in scale_kernels(backbone()).named_parameters() if p.requires_grad}
    assert sorted(map(tuple, learning.values())) == [(2, 4, 1, 1), (4,), (4,), (4, 3, 1, 1)]


def test_merged_kernels_give_the_same_maps_and_the_same_names():
    scaled = scale_kernels(backbone())
    for parameter in scaled.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, mean=1)
    merged, images = merge_kernels(scaled), torch.randn(2, 3, 5, 5)
    assert_close(merged(images), scaled(images))
    assert not torch.allclose(merged(images), backbone()(images))
    assert merged.state_dict().keys() == backbone().state_dict().keys()
    assert all(parameter.requires_grad for parameter in merged.parameters())


def test_a_single_convolution_can_be_scaled_too():
    conv, maps = nn.Conv2d(3, 2, 1), torch.randn(1, 3, 2, 2)
    assert_close(merge_kernels(scale_kernels(conv))(maps), conv(maps))


def test_scaling_leaves_the_given_backbone_alone():
    given = backbone()
    scale_kernels(given)
    assert given.state_dict().keys() == backbone().state_dict().keys()
    assert all(parameter.requires_grad for parameter in given.parameters())


def test_the_loss_goes_down():
    torch.manual_seed(0)
    before, after = train_on_stream(E3BM(6, steps=5))
    assert after < 0.5 * before
