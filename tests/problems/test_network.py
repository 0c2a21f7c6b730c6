"""Networks as a problem: sums and predictions one example at a time, and where chains start."""

from dataclasses import replace

import torch
from one_by_one import with_parameters
from scenarios import digits, network
from torch import nn

from dplangevin.data.pixels import scaled


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
