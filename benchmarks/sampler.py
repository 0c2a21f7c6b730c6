"""The posterior sampler of OPS on Adult, by effective sample size per second: the two kernels for the ball, and plain
HMC against NumPyro's NUTS on the posterior with a normal prior, which needs no ball."""

import os
from collections.abc import Callable
from functools import partial
from statistics import median

import adult
import torch
from hydra.utils import instantiate
from measure import Options, Row, timed, verdict
from omegaconf import OmegaConf

from dplangevin import random
from dplangevin.methods import released
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.samplers.diagnostics import Mixing, mixing
from dplangevin.samplers.posterior import Sampler

EPSILONS = (1.0, 10.0)
RADIUS = 10.0
DRAWS = 200
CHAINS, WARMUP = 4, 200  # of NUTS; ours warms up as it does in experiments
MOST = 5 * DRAWS  # of ours, which draws until R-hat is below 1.05


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem = adult.problem(cfg)
    found = []
    for epsilon in EPSILONS:
        speeds: dict[str, list[float]] = {"sphere": [], "reflect": []}
        r_hats: dict[str, list[float]] = {"sphere": [], "reflect": []}
        for run in range(options.runs):
            for boundary in speeds:
                settings = {"boundary": boundary, "block": DRAWS, "max_draws": DRAWS}
                overrides = {"bound": "range", "radius": RADIUS, "sampler": settings}
                method = instantiate(OmegaConf.merge(cfg.method.ops, overrides))
                rng = random.generator(cfg.seed, f"bench/sampler/{run}")
                given = method, problem, [Budget(epsilon, cfg.delta)], cfg.repeats, rng
                (release, _), took = timed(partial(released, *given))
                speeds[boundary].append(float(release.not_private["ess"].min()) / took)
                r_hats[boundary].append(float(release.not_private["r_hat"].max()))
        ours, peer = ({"speed": median(speeds[b]), "r_hat": max(r_hats[b])} for b in speeds)
        found.append(
            Row(
                f"OPS sampler, eps = {epsilon:g}, D = {RADIUS:g}: sphere against reflect",
                f"{ours['speed']:.1f} ESS/s, R-hat {ours['r_hat']:.3f}",
                f"{peer['speed']:.1f} ESS/s, R-hat {peer['r_hat']:.3f}",
                f"{ours['speed'] / peer['speed']:.1f} times",
                "-",
                "-",
                str(options.threads),
                f"median ESS/s and worst R-hat of {options.runs} runs in turns; {cfg.repeats} chains, "
                f"{DRAWS} draws each; worst coordinate; time with centre and warm-up",
            )
        )
    return [*found, against_nuts(options, problem)]


def against_nuts(options: Options, problem: Glm) -> Row:
    """The posterior under N(0, I), all of its density, as `reference` samples it."""
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[: options.threads]
    )  # XLA takes all that it is given
    nuts = compiled(problem)
    nuts(-1)
    ours, peer = [], []
    for run in range(options.runs):
        found, took = timed(partial(hmc, problem, run))
        ours.append((float(found.ess.min()) / took, float(found.r_hat.max())))
        theirs, took = timed(partial(nuts, run))
        peer.append((float(theirs.ess.min()) / took, float(theirs.r_hat.max())))
    speeds = [median(speed for speed, _ in side) for side in (ours, peer)]
    worst = [max(r_hat for _, r_hat in side) for side in (ours, peer)]
    return Row(
        "posterior under N(0, I) on Adult: HMC against NumPyro's NUTS",
        f"{speeds[0]:.1f} ESS/s, R-hat {worst[0]:.3f}",
        f"{speeds[1]:.1f} ESS/s, R-hat {worst[1]:.3f}",
        f"{speeds[0] / speeds[1]:.1f} times",
        ">= 1 times",
        verdict(speeds[0] >= speeds[1]),
        str(options.threads),
        f"median ESS/s and worst R-hat of {options.runs} runs in turns; {CHAINS} chains at once, {DRAWS} draws each, "
        f"ours {DRAWS} more while R-hat is 1.05 or above; "
        f"worst coordinate; time with warm-up, without compilation of NUTS, whose warm-up has {WARMUP} steps; float32",
    )


def hmc(problem: Glm, run: int) -> Mixing:
    sampler = Sampler(chains=CHAINS, block=DRAWS, max_draws=MOST)
    rng = random.generator(run, "bench/hmc")
    return sampler.sample(problem, torch.ones(1), torch.ones(1), float("inf"), CHAINS, rng).mixing


def compiled(problem: Glm) -> Callable[[int], Mixing]:
    """A run of NUTS by its seed; the first one compiles it."""
    import jax
    import numpy as np
    import numpyro
    from jax import numpy as jnp
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    x, y = jnp.asarray(problem.x[0].numpy()), jnp.asarray((problem.y[0].numpy() + 1) / 2)

    def model() -> None:
        theta = numpyro.sample("theta", dist.Normal(jnp.zeros(problem.d), 1.0).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ theta), obs=y)

    chains = MCMC(
        NUTS(model, target_accept_prob=0.8),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )

    def sample(run: int) -> Mixing:
        chains.run(jax.random.key(run % 2**31))
        draws = torch.tensor(
            np.asarray(chains.get_samples(group_by_chain=True)["theta"])
        )  # (chains, draws, d)
        return mixing(draws.movedim(1, 0)[:, None, :, None])

    return sample
