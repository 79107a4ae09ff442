"""A backbone and a method as one model."""

import torch
from torch import nn

from dmn4.methods import build_method
from dmn4.training.model import FewShotModel


def test_the_method_sees_the_maps_of_support_and_query_embedded_together():
    seen = []

    class Double(nn.Module):
        def forward(self, images):
            seen.append(len(images))
            return 2 * images

    support, labels, query = torch.rand(4, 3, 5, 5), torch.tensor([0, 1, 0, 1]), torch.rand(2, 3, 5, 5)
    method = build_method("dmn4")
    scores = FewShotModel(Double(), method)(support, labels, query)
    assert seen == [6]
    assert torch.equal(scores, method(2 * support, labels, 2 * query))
