import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import noise_episode, train_on_stream

from dmn4.methods.covariance import Covariance, covariance_vectors


def test_second_moments_by_hand():
    vectors = covariance_vectors(torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]]))             # 2 channels, 2 locations
    assert_close(vectors, torch.tensor([[1.581142, 2.345210, 2.345210, 3.535535]]), atol=1e-6, rtol=0)


def test_opposite_channels_keep_their_sign():
    assert covariance_vectors(torch.tensor([[[[4.0]], [[-1.0]]]]))[0, 1] < -1.99


def test_neither_place_nor_sign_of_the_descriptors_matters():
    maps = noise_episode()[0]
    moved = maps.flatten(2)[..., torch.randperm(9)].view_as(maps)
    assert_close(covariance_vectors(moved), covariance_vectors(maps))
    assert_close(covariance_vectors(-maps), covariance_vectors(maps))


def test_scores_are_distances_to_mean_covariance_vectors():
    support, labels, query = noise_episode()
    vectors = covariance_vectors(support)
    means = torch.stack([vectors[labels == c].mean(0) for c in range(3)])
    expected = -(covariance_vectors(query)[:, None] - means).square().sum(2)
    assert_close(Covariance()(support, labels, query), expected, atol=1e-5, rtol=1e-5)


def test_gradients_are_exact():
    support, labels, query = noise_episode(channels=2, side=2)
    support, query = support.double().requires_grad_(), query.double().requires_grad_()
    assert gradcheck(lambda s, q: Covariance()(s, labels, q), (support, query))


def test_the_loss_goes_down():
    before, after = train_on_stream(Covariance(6))
    assert after < 0.5 * before
