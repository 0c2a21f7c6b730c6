from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _templates_may_draw() -> Iterator[None]:
    """PyTorch's layers draw values from its global generator as they are made; those of a template do not matter."""
    with torch.random.fork_rng(devices=[]):
        yield
