import torch
import torch.nn.functional as F
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.methods.meta_baseline import MetaBaseline
from dmn4.methods.protonet import ProtoNet
from dmn4.methods.vectors import class_means, pooled


def test_scores_are_ten_times_the_cosine():
    scores = MetaBaseline()(as_maps([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 1]), as_maps([[3.0, 0.0]]))
    assert_close(scores, torch.tensor([[10.0, 6.0]]))


def test_shots_are_averaged_before_they_are_normalised():
    support = as_maps([[9.0, 0.0], [0.0, 1.0]])                   # mean (4.5, 0.5); the mean direction would be (1, 1)
    score = MetaBaseline(scale=1)(support, torch.tensor([0, 0]), as_maps([[1.0, 0.0]]))
    assert_close(score, torch.tensor([[9 / 82**0.5]]))


def test_it_is_prototypes_on_unit_vectors():
    support, labels, query = noise_episode()
    unit = F.normalize(class_means(pooled(support), labels), dim=1)[..., None, None]       # one unit prototype a class
    distances = ProtoNet()(unit, torch.arange(3), F.normalize(pooled(query), dim=1)[..., None, None])
    assert_close(MetaBaseline(scale=10)(support, labels, query), 10 * (1 + distances / 2), atol=1e-5, rtol=1e-5)


def test_the_length_of_a_query_does_not_matter():
    support, labels, query = noise_episode()
    assert_close(MetaBaseline()(support, labels, 7 * query), MetaBaseline()(support, labels, query))


def test_the_loss_goes_down():
    before, after = train_on_stream(MetaBaseline(6))
    assert after < 0.5 * before
