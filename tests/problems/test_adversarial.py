"""A GAN as a problem: its losses, its clipped sums, what the generator's steps may depend on, and resumption."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from stopping import Stop, Stopping
from torch import Tensor
from torch.func import functional_call, grad, vmap

from dplangevin import random
from dplangevin.files import Checkpoint
from dplangevin.problems.adversarial import Adversary, GanProblem, Loss
from dplangevin.problems.architectures import adversaries, named
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import Momentum, run

K, N, SEEDS = 3, 40, 2
SHAPE = (1, 8, 8)
NETWORK, GENERATOR = adversaries(SHAPE, K + 1, [3, 4], 5)


def problem(labels: str = "private") -> GanProblem:
    rng = torch.Generator().manual_seed(1)
    x = torch.randint(256, (N, *SHAPE), generator=rng, dtype=torch.uint8)
    y = torch.arange(N) % K
    labelled = torch.stack([torch.arange(6), torch.arange(6, 12)])
    of = torch.full((SEEDS, N), K + 1).scatter_(1, labelled, y[labelled])
    adversary = Adversary(GENERATOR, 0.01, 6)
    rows = torch.arange(N).expand(SEEDS, -1)
    found = GanProblem(NETWORK, adversary, x, rows, of, x[:7], y[None, :7], weight=2.0)
    if labels == "public":
        rest = torch.stack([torch.arange(6, N), torch.cat([torch.arange(6), torch.arange(12, N)])])
        unknown = torch.full_like(rest, K + 1)
        return replace(found, rows=rest, y=unknown, public=labelled, y_public=y[labelled])
    if labels == "alone":
        return replace(found, adversary=None, rows=labelled, y=y[labelled])
    return found


def direct(z: Tensor, y: int, weight: float) -> Tensor:
    """The loss as the module prints it, from probabilities."""
    p = z.softmax(-1)
    if y < K:
        return -weight * (p[y] / p[:K].sum()).log()
    return -(p[K] if y == K else p[:K].sum()).log()


def test_losses_and_their_gradients_are_those_of_the_probabilities() -> None:
    z = torch.randn(K + 2, K + 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = torch.arange(K + 2)
    loss, gradient = Loss(K, 2.5)(z, y)
    for i in range(K + 2):
        own = z[i].clone().requires_grad_()
        value = direct(own, i, 2.5)
        value.backward()
        assert own.grad is not None
        torch.testing.assert_close(loss[i], value.detach())
        torch.testing.assert_close(gradient[i], own.grad)


@pytest.mark.parametrize("clip", [0.3, math.inf])
def test_clipped_sums_are_those_of_autograd_record_by_record(clip: float) -> None:
    of = problem()
    theta = of.init(SEEDS, torch.Generator().manual_seed(3))[:, None].double()
    rows = torch.stack([torch.arange(4, 16), torch.arange(0, 12)])
    mask = torch.ones(SEEDS, 1, 12, dtype=torch.bool)
    mask[0, 0, 10:] = False
    found = of.clipped_sum(theta.float(), rows, mask, None if clip == math.inf else torch.tensor([clip]))
    for s in range(SEEDS):
        x, y = of.x[rows[s]].double() / 127.5 - 1, of.y[s][rows[s]]

        def loss(own: Tensor, image: Tensor, label: Tensor) -> Tensor:
            z = functional_call(NETWORK.module, named(NETWORK.module, own), (image[None],))
            return Loss(K, of.weight)(z, label[None])[0][0]

        each = vmap(grad(loss), (None, 0, 0))(theta[s, 0, : NETWORK.d], x, y)
        each = each * (clip / each.norm(dim=1, keepdim=True)).clamp(max=1) * mask[s, 0, :, None]
        torch.testing.assert_close(found.gradient[s, 0].double(), each.sum(0), atol=2e-5, rtol=1e-4)
    assert found.gradient.shape == (SEEDS, 1, NETWORK.d)


def chain(steps: int = 6, noise: float = 0.1, clip: float = 0.5) -> Chain:
    still = torch.full((steps,), noise, dtype=torch.float64)
    return Chain(torch.full((steps,), 0.1, dtype=torch.float64), still, Sampling("poisson", batch=8), clip)


@pytest.mark.parametrize("labels", ["private", "public"])
def test_a_step_is_that_of_autograd(labels: str) -> None:
    """Without noise and clip: the discriminator descends the whole mean loss, the generator takes Adam's first step."""
    of = problem(labels)
    one = chain(1, 0.0, math.inf)._replace(sampling=Sampling("full"))
    start = of.init(SEEDS, torch.Generator().manual_seed(3))[:, None]
    kernel = of.around(Momentum([one], of.facts.n, of.device), [one])
    state = kernel.init(start, torch.Generator().manual_seed(4))
    rows = torch.arange(of.facts.n).expand(SEEDS, -1)
    sums = of.clipped_sum(start, rows, None, None)
    after = kernel.step(state, sums.gradient, 0, random.Batch(rows, None, torch.zeros(SEEDS, 1, NETWORK.d)))
    z = torch.randn(SEEDS, 6, 5, generator=random.generator(int(state[1]), "latent variables of step 0"))
    for s in range(SEEDS):
        own = start[s, 0, : NETWORK.d].clone().requires_grad_()
        made = GENERATOR.images(start[s, 0, NETWORK.d :], z[s])

        def logits(theta: Tensor, x: Tensor) -> Tensor:
            return functional_call(NETWORK.module, named(NETWORK.module, theta), (x,))

        def terms(x: Tensor, y: Tensor, weight: float = 1.0, own: Tensor = own) -> Tensor:
            return torch.stack(
                [direct(z, int(label), weight) for z, label in zip(logits(own, x), y, strict=True)]
            ).mean()

        loss = terms(of.x[of.rows[s]] / 127.5 - 1, of.y[s], of.weight) + terms(made, torch.full((6,), K))
        if of.public is not None and of.y_public is not None:
            loss = loss + terms(of.x[of.public[s]] / 127.5 - 1, of.y_public[s])
        (slope,) = torch.autograd.grad(loss, own)
        new = own.detach() - 0.1 * slope
        torch.testing.assert_close(after[0][s, 0, : NETWORK.d], new, atol=2e-6, rtol=1e-4)
        parameters = start[s, 0, NETWORK.d :].clone().requires_grad_()
        p = logits(new, GENERATOR.images(parameters, z[s])).softmax(1)
        (slope,) = torch.autograd.grad(-p[:, :K].sum(1).log().mean(), parameters)
        moved = after[0][s, 0, NETWORK.d :] - parameters.detach()
        sure = slope.abs() > 1e-5  # Adam's first step is the sign's
        torch.testing.assert_close(moved[sure], -0.01 * slope[sure].sign(), atol=1e-4, rtol=0)


def test_the_generator_sees_records_through_the_discriminator_alone() -> None:
    """What a record changes it changes through the noisy sum: given that and the state, a step knows no images."""
    one, other = problem(), replace(problem(), x=255 - problem().x)
    state = one.around(Momentum([chain()], 8, one.device), [chain()]).init(
        one.init(SEEDS, torch.Generator().manual_seed(3))[:, None], torch.Generator().manual_seed(4)
    )
    noisy = torch.randn(SEEDS, 1, NETWORK.d, generator=torch.Generator().manual_seed(6))
    batch = random.Batch(torch.zeros(SEEDS, 8, dtype=torch.long), None, noisy)
    both = [
        of.around(Momentum([chain()], 8, of.device), [chain()]).step(state, noisy, 0, batch)
        for of in (one, other)
    ]
    for mine, theirs in zip(*both, strict=True):
        assert torch.equal(mine, theirs)


def test_noise_reaches_the_discriminator_with_its_deviation() -> None:
    of = problem()
    quiet, loud = (
        run(of, [chain(1, noise)], SEEDS, random.generator(0, "noise"))[:, 0, 0] for noise in (0.0, 4.0)
    )
    moved = (loud - quiet)[:, : NETWORK.d]
    assert float(moved.std()) == pytest.approx(0.1 / 8 * 4.0, rel=0.1)


@pytest.mark.parametrize("labels", ["private", "public"])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bytes(tmp_path: Path, labels: str) -> None:
    of, chains = problem(labels), [chain(), chain(clip=0.1)]

    whole = run(of, chains, SEEDS, random.generator(5, "a"), checkpoint=Checkpoint(tmp_path / "w.pt", "w"))
    with pytest.raises(Stop):
        run(of, chains, SEEDS, random.generator(5, "a"), checkpoint=Stopping(tmp_path / "c.pt", 3))
    found = run(of, chains, SEEDS, random.generator(5, "a"), checkpoint=Checkpoint(tmp_path / "c.pt", "key"))
    assert torch.equal(found, whole)
    assert found.shape == (SEEDS, 2, 1, NETWORK.d + GENERATOR.d)


def test_labels_alone_are_supervised_learning() -> None:
    of = problem("alone")
    assert of.facts.n == 6
    theta = of.init(SEEDS, torch.Generator().manual_seed(3))[:, None]
    assert theta.shape[-1] == NETWORK.d
    rows = torch.arange(6).expand(SEEDS, -1)
    z = NETWORK.logits(theta[:, 0], of.x[of.rows] / 127.5 - 1)[..., :K]
    loss = 2 * F.cross_entropy(z.flatten(0, 1), of.y.flatten(), reduction="sum")
    found = of.clipped_sum(theta, rows, None, None).loss
    assert found is not None
    assert float(found.sum()) == pytest.approx(float(loss), rel=1e-5)
    with pytest.raises(ValueError, match="no generator"):
        of.generated(theta, torch.zeros(2, 5))


def test_predictions_are_of_the_real_classes() -> None:
    of = problem()
    theta = of.init(SEEDS, torch.Generator().manual_seed(3))[:, None]
    found = of.predict(theta)
    z = NETWORK.logits(theta[:, 0, : NETWORK.d], of.x_test[None] / 127.5 - 1)
    torch.testing.assert_close(found[:, 0], z[..., :K].softmax(-1))
    assert of.generated(theta, torch.zeros(2, 5)).shape == (SEEDS, 1, 2, *SHAPE)
