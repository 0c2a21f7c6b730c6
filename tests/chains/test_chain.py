"""The loop against an explicit one: per-example gradients by autograd, one record at a time, on the same draws."""

import math

import pytest
import torch
import torch.nn.functional as F
from one_by_one import with_parameters

from dplangevin import noise
from dplangevin.chains.chain import Chain, run
from dplangevin.chains.sampling import Batch, Sampling, Scheme, batches
from dplangevin.networks import build
from dplangevin.problems.network import NetworkProblem

STEPS, N, TAU, SEEDS = 6, 30, 10, 2
NETWORK = build([{"conv": 2, "kernel": 3}, {"activation": "tanh"}, {"linear": 3}], [1, 4, 4], 3)


def problem() -> NetworkProblem:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(N + 5, 1, 4, 4, generator=rng), torch.randint(3, (N + 5,), generator=rng)
    return NetworkProblem(NETWORK, x[:N], y[:N], x[N:], y[N:])


def chain(scheme: Scheme, **more: float) -> Chain:
    sampling = Sampling(
        scheme, None if scheme == "full" else TAU, STEPS / (1 if scheme == "full" else N / TAU)
    )
    step = torch.linspace(0.5, 0.2, STEPS, dtype=torch.float64)
    return Chain(step, torch.linspace(0.3, 0.6, STEPS), sampling, **more)  # type: ignore[arg-type]


def gradient(theta: torch.Tensor, i: int, clip: float) -> torch.Tensor:
    module, data = with_parameters(NETWORK.module, theta), problem()
    loss = F.cross_entropy(module(data.x[i][None]), data.y[i][None])
    g = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(module.parameters()))])
    return g * min(1.0, clip / float(g.norm()))


def explicit(chains: list[Chain], size: int, seed: int) -> list[torch.Tensor]:
    """theta ``(S, E, d)`` after each step."""
    rng = noise.generator(seed, "test")
    start = NETWORK.init(rng, SEEDS)
    theta = start[:, None].repeat(1, len(chains), 1)
    if any(c.start_std for c in chains):
        normals = torch.randn(SEEDS, 1, NETWORK.d, generator=rng)
        theta = theta + torch.tensor([[c.start_std] for c in chains]) * normals
    theta = torch.stack([cut(theta[:, e], c.radius) for e, c in enumerate(chains)], 1)
    velocity, out = torch.zeros_like(theta), []
    schemes = {c.sampling.scheme for c in chains}
    for t, batch in enumerate(batches(rng, schemes, SEEDS, N, size, NETWORK.d, STEPS, 64)):
        for s in range(SEEDS):
            for e, c in enumerate(chains):
                count = size
                if c.sampling.scheme == "poisson":
                    assert batch.sizes is not None
                    count = int(batch.sizes[s])
                total = c.noise_std[t] * batch.normals[s, 0]
                for i in batch.rows[s, :count].tolist():
                    total = total + gradient(theta[s, e], i, c.clip)
                velocity[s, e] = c.momentum * velocity[s, e] + total / size + c.l2 * theta[s, e]
                theta[s, e] = cut(theta[s, e] - float(c.step[t]) * velocity[s, e], c.radius)
        out.append(theta.clone())
    return out


def cut(theta: torch.Tensor, radius: float) -> torch.Tensor:
    return theta if radius == math.inf else theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp(max=1)


@pytest.mark.parametrize(
    "chains",
    [
        [chain("poisson", clip=0.4, momentum=0.5, l2=0.1), chain("poisson")],
        [chain("subset", clip=0.4, radius=1.5, start_std=1.0), chain("poisson", clip=0.2, l2=0.3)],
        [chain("full", clip=0.4)],
    ],
    ids=["poisson", "subset and poisson", "full"],
)
def test_it_is_the_explicit_loop(chains: list[Chain]) -> None:
    """Chains that share draws: each with its own clip, ridge, momentum, ball and sampling."""
    kept = [c._replace(keep=(2, STEPS)) for c in chains]
    found = run(problem(), kept, SEEDS, noise.generator(5, "test"))
    wanted = explicit(chains, chains[0].sampling.size(N), 5)
    torch.testing.assert_close(found, torch.stack([wanted[1], wanted[-1]], 2), rtol=1e-4, atol=1e-5)


def test_poisson_samples_and_subsets_have_their_laws() -> None:
    """Each row in a Poisson sample with probability tau/n, the sizes binomial; a subset without copies."""
    rng, count = noise.generator(0, "laws"), torch.zeros(N)
    drawn: list[Batch] = list(batches(rng, {"poisson", "subset"}, 40, N, TAU, 1, 100, 64))
    sizes = torch.stack([batch.sizes for batch in drawn if batch.sizes is not None]).double()
    for batch in drawn:
        assert batch.sizes is not None
        there = torch.arange(batch.rows.shape[1]) < batch.sizes[:, None]
        count += torch.bincount(batch.rows[there], minlength=N)
        assert all(len(set(rows.tolist())) == len(rows) for rows in batch.rows[:3])
    q = TAU / N
    assert abs(float(sizes.mean()) - TAU) < 5 * math.sqrt(N * q * (1 - q) / sizes.numel())
    assert abs(float(sizes.var()) / (N * q * (1 - q)) - 1) < 0.12
    assert float((count / sizes.numel() - q).abs().max()) < 5 * math.sqrt(q * (1 - q) / sizes.numel())


def test_chains_that_cannot_share_batches_are_refused() -> None:
    other = chain("poisson")._replace(sampling=Sampling("poisson", TAU + 1, 2.0))
    with pytest.raises(ValueError, match="need equally many steps, one batch size and one `keep`"):
        run(problem(), [chain("poisson"), other], 1, torch.Generator())
    with pytest.raises(ValueError, match=r"clips \[0\.0\] must be positive"):
        run(problem(), [chain("poisson", clip=0.0)], 1, torch.Generator())


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"scheme": "bernoulli"}, "scheme must be one of poisson, subset, full"),
        ({"scheme": "full", "batch": 3}, "scheme full takes all rows"),
        ({"scheme": "poisson", "batch": 0}, "batch must be a whole number"),
        ({"scheme": "subset", "batch": 2.5}, "batch must be a whole number"),
        ({"scheme": "poisson", "batch": 2, "epochs": math.inf}, "epochs must be positive and finite"),
    ],
)
def test_sampling_out_of_its_domain(given: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Sampling(**given)


def test_one_rounding_of_steps() -> None:
    """Never more passes than are stated; None stands for sqrt(n)."""
    assert Sampling("poisson", 128, 30).steps(50_000) == 11_718
    assert Sampling("subset").size(32_561) == 180
    assert Sampling("subset").steps(10_000) == 10_000
    with pytest.raises(ValueError, match="batch = 40 is larger than the data set"):
        Sampling("poisson", 40, 1).rate(39)
    with pytest.raises(ValueError, match="make no step with batch = 40: raise epochs"):
        Sampling("poisson", 40, 0.01).steps(400)
