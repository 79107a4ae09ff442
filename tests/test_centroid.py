import pytest
import torch
from torch import nn
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.centroid import BaseImages, Centroid, centroid_loss, draw_related, related_places
from dmn4.methods.vectors import cosines, flat


def test_the_alignment_loss_by_hand():
    centroids = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    between, at_home, owner = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]]), torch.tensor([0])
    assert_close(centroid_loss(between, owner, centroids), torch.tensor(0.693147), atol=1e-6, rtol=0)
    assert_close(centroid_loss(at_home, owner, centroids), torch.tensor(0.018150), atol=1e-6, rtol=0)
    both = centroid_loss(torch.cat([between, at_home]), torch.tensor([0, 0]), centroids)
    assert_close(both, torch.tensor(0.355649), atol=1e-6, rtol=0)


def test_each_novel_class_claims_the_base_classes_taken_for_it():
    labels = torch.tensor([30, 30, 10, 10, 20, 20])
    guesses = torch.tensor([0, 0, 1, 0, 1, 1])               # base class 30 looks like 0, 20 like 1, 10 like both
    assert [places.tolist() for places in related_places(guesses, labels, 2, most=1)] == [[0, 1], [4, 5]]
    assert [places.tolist() for places in related_places(guesses, labels, 2, most=2)] == [[0, 1, 3], [4, 5]]


def test_a_novel_class_that_comes_too_late_has_no_related_images():
    related = related_places(torch.tensor([0, 1]), torch.tensor([5, 5]), 2, most=10)
    assert [places.tolist() for places in related] == [[0], []]


def test_as_many_related_images_are_drawn_for_each_class_that_has_any():
    related = [torch.tensor([3, 4, 5]), torch.tensor([], dtype=torch.long), torch.tensor([7, 8])]
    places, owner = draw_related(related, 50, torch.Generator().manual_seed(0))
    assert owner.tolist() == [0, 0, 2, 2]
    assert set(places[:2].tolist()) < {3, 4, 5}
    assert set(places[2:].tolist()) == {7, 8}
    assert len(draw_related(related, 1, torch.Generator())[0]) == 2


def test_no_related_image_at_all_is_an_empty_draw():
    places, owner = draw_related([torch.tensor([], dtype=torch.long)] * 2, 50, torch.Generator())
    assert len(places) == len(owner) == 0


def test_the_head_learns_the_support_set():
    support = as_maps([[1.0, 0.2, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 1.0]])
    scores = Centroid(lr=0.05)(support, torch.tensor([0, 1, 2]), support)
    assert scores.argmax(1).tolist() == [0, 1, 2]
    assert scores.abs().max() <= 5


def test_equal_calls_give_equal_scores_and_another_seed_others():
    support, labels, query = noise_episode()
    method = Centroid(head_steps=2)
    assert torch.equal(method(support, labels, query), method(support, labels, query))
    other = Centroid(head_steps=2, seed=1)
    assert not torch.allclose(method(support, labels, query), other(support, labels, query))


def test_renaming_the_classes_moves_the_scores_along():
    support, labels, query = noise_episode()
    method, names = Centroid(head_steps=3), torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


def test_the_order_of_shots_does_not_matter_to_the_head():
    support, labels, query = noise_episode()
    method, order = Centroid(head_steps=3), torch.tensor([5, 3, 0, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), method(support, labels, query), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_the_head_is_fitted_where_gradients_are_off(guard):
    support, labels, query = noise_episode()
    method = Centroid(head_steps=2)
    with guard():
        scores = method(support * 1, labels * 1, query * 1)
    assert not scores.requires_grad
    assert torch.equal(scores, method(support, labels, query))


def image_episode() -> tuple[nn.Module, torch.Tensor, torch.Tensor, BaseImages]:
    """A small network, four images of two classes, and base images of three classes that resemble them."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2)).eval()
    red, blue = torch.tensor([1.0, 0, 0]).view(3, 1, 1), torch.tensor([0.0, 0, 1]).view(3, 1, 1)
    images = torch.randn(4, 3, 6, 6) * 0.3 + torch.stack([red, red, blue, blue])
    base = torch.randn(12, 3, 6, 6) * 0.3 + torch.stack([red] * 4 + [blue] * 4 + [red + blue] * 4)
    return network, images, torch.tensor([0, 0, 1, 1]), BaseImages(base, torch.tensor([7] * 4 + [9] * 4 + [8] * 4))


def test_adapting_gives_a_changed_copy_and_leaves_the_backbone_alone():
    network, images, labels, base = image_episode()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    adapted = Centroid(head_steps=2, steps=2).adapt(network, images, labels, base)
    assert not adapted.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not torch.allclose(adapted[0].weight, network[0].weight)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_without_steps_the_aligned_head_is_the_head_of_the_plain_call():
    network, images, labels, base = image_episode()
    method = Centroid(head_steps=5, steps=0)
    aligned, head = method.align(network, images, labels, base)
    assert torch.equal(aligned(images), network(images))
    assert_close(5 * cosines(flat(network(images)), head), method(network(images), labels, network(images)))


def test_the_aligned_head_answers_for_the_aligned_backbone():
    network, images, labels, base = image_episode()
    method = Centroid(head_steps=3, steps=3, lr=0.01)
    aligned, head = method.align(network, images, labels, base)
    adapted, learnt = method.learn_adapted(network, images, labels, base)
    scores = method.answer(learnt, adapted(images))
    assert_close(scores, 5 * cosines(flat(aligned(images)), head))
    assert not torch.allclose(scores, method(adapted(images), labels, adapted(images)))      # what a new head says


def test_alignment_lowers_its_loss():
    network, images, labels, base = image_episode()

    def misfit(network: nn.Module) -> float:
        rows = flat(network(base.images[:8]))                # the red and the blue base class
        centroids = torch.stack([flat(network(images))[labels == c].mean(0) for c in range(2)])
        return centroid_loss(rows, torch.arange(2).repeat_interleave(4), centroids).item()

    aligned, head = Centroid(lr=0.01, steps=20).align(network, images, labels, base)
    assert misfit(aligned) < 0.5 * misfit(network)
    assert cosines(flat(aligned(images)), head).argmax(1).tolist() == labels.tolist()


def test_stored_base_maps_save_embedding_and_change_nothing():
    network, images, labels, base = image_episode()
    stored = BaseImages(base.images, base.labels, network(base.images).detach())
    method = Centroid(head_steps=3, steps=2)
    first, second = (method.align(network, images, labels, b)[1] for b in (base, stored))
    assert_close(first, second)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_it_adapts_where_gradients_are_off(guard):
    network, images, labels, base = image_episode()
    method = Centroid(head_steps=2, steps=2)
    with guard():
        head = method.align(network, images * 1, labels * 1, base)[1]
    assert torch.equal(head, method.align(network, images, labels, base)[1])


def test_it_asks_for_base_images():
    network, images, labels, _ = image_episode()
    with pytest.raises(InputError, match="centroid aligns with base images: give base="):
        Centroid().adapt(network, images, labels, None)


def test_the_loss_goes_down():
    before, after = train_on_stream(Centroid(head_steps=30, lr=0.02))
    assert after < 0.5 * before
