import torch
from torch.testing import assert_close
from toy_episodes import noise_episode, train_on_stream

from dmn4.methods.dc import DC, log_mean_probability
from dmn4.methods.meta_baseline import MetaBaseline


def test_probabilities_are_averaged_not_logits():
    scores = log_mean_probability(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))                # two locations, two classes
    assert_close(scores.exp(), torch.tensor([[0.574869, 0.425131]]), atol=1e-6, rtol=0)


def test_it_agrees_with_a_loop_over_locations():
    support, labels, query = noise_episode()
    means = torch.stack([support[labels == c].mean((0, 2, 3)) for c in range(3)])
    for image, scores in zip(query, DC(scale=4)(support, labels, query), strict=True):
        shares = [(4 * torch.cosine_similarity(image[:, y, x], means)).softmax(0) for y in range(3) for x in range(3)]
        assert_close(scores.exp(), sum(shares) / 9)


def test_with_one_location_it_is_a_cosine_prototype_classifier():
    support, labels, query = noise_episode(side=1)
    assert_close(DC(scale=10)(support, labels, query), MetaBaseline(scale=10)(support, labels, query).log_softmax(1))


def test_pooled_queries_are_a_cosine_prototype_classifier():
    support, labels, query = noise_episode()
    scores = DC(scale=10, locations="pooled")(support, labels, query)
    assert_close(scores, MetaBaseline(scale=10)(support, labels, query).log_softmax(1))


def test_an_impossible_class_has_a_finite_score():
    assert log_mean_probability(torch.tensor([[[500.0, -500.0]]])).isfinite().all()


def test_the_loss_goes_down():
    before, after = train_on_stream(DC(6), alike=True)
    assert after < 0.75 * before
