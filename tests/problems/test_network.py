"""Networks as a problem: sums and predictions one example at a time, and where chains start."""

from dataclasses import replace

import torch
from one_by_one import expected, with_parameters
from scenarios import digits, network
from torch import nn

from dplangevin.data.pixels import scaled


def test_clipped_sums_are_those_of_single_examples() -> None:
    """Two seeds with rows of their own, two chains with parameters, masks and clips of their own."""
    of, rng = network(), torch.Generator().manual_seed(0)
    theta = torch.randn(2, 2, of.facts.d, generator=rng) / 4
    rows = torch.tensor([[3, 4, 5], [59, 0, 3]])
    mask = torch.tensor([[[1, 1, 0], [0, 1, 1]], [[1, 0, 1], [1, 1, 1]]]).bool()
    found = of.clipped_sum(theta, rows, mask, torch.tensor([0.5, 1e9]))
    for e, clip in enumerate((0.5, 1e9)):
        wanted = expected(of.network, theta[:, e], scaled(of.x[rows]), of.y[rows], mask[:, e], clip)
        torch.testing.assert_close(found.gradient[:, e], wanted.gradient, rtol=1e-4, atol=1e-5)
        assert found.loss is not None
        torch.testing.assert_close(found.loss[:, e], wanted.loss.sum(-1))


def test_predictions_are_the_modules_and_facts_the_data_sets() -> None:
    of, images = network(), digits()
    theta = torch.randn(2, 2, of.facts.d, generator=torch.Generator().manual_seed(1)) / 4
    found, tests = of.predict(theta), scaled(torch.as_tensor(images.x_test[0]))
    for s in range(2):
        wanted = with_parameters(of.network.module, theta[s, 1])(tests).softmax(-1)
        torch.testing.assert_close(found[s, 1], wanted.detach())
    assert of.facts[:3] == (60, of.network.d, 3)
    assert of.facts.public == 40
    assert torch.equal(of.y_test, torch.as_tensor(images.y_test))


def test_chains_start_at_random_or_from_the_template() -> None:
    of = network()
    drawn = of.init(3, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, of.network.init(torch.Generator().manual_seed(0), 3))
    nn.utils.vector_to_parameters(torch.arange(of.facts.d).float(), of.network.module.parameters())
    rng = torch.Generator().manual_seed(0)
    before, given = rng.get_state(), replace(of, pretrained=True).init(3, rng)
    assert torch.equal(given, torch.arange(of.facts.d).float().expand(3, -1))
    assert torch.equal(rng.get_state(), before)
