import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)     # small inputs, and several test processes side by side

settings.register_profile("default", deadline=None, max_examples=50)
settings.load_profile("default")


@pytest.fixture
def episode() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Maps of a small episode: three classes of uneven shots in mixed order, four queries."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([2, 0, 1, 0, 2, 2])
    means = torch.randn(3, 8, 1, 1, generator=generator)
    support = means[labels] + torch.randn(6, 8, 3, 4, generator=generator)
    query = means[torch.tensor([0, 1, 2, 1])] + torch.randn(4, 8, 3, 4, generator=generator)
    return support, labels, query
