"""DP-SGLD's step on Adult at 110 and at 1,000 chains: ours against JAX, compiled and vectorised, on the same cores.

JAX once as an expert would write it, the norm of a record's gradient in closed form, and once as `vmap(grad)` of one
record's loss.  Both draw rows with replacement, which costs less than the Poisson samples and the subsets that a price
is known for; seeds have minibatches of their own, which their chains share, as ours do.
"""

import os
from collections.abc import Callable
from statistics import median
from typing import Any

import adult
import torch
from measure import Options, Row, isolated, medians, verdict

from dplangevin import random
from dplangevin.chains.chain import Chain, run
from dplangevin.chains.sampling import Sampling
from dplangevin.problems.glm import Glm

BATCH = 512
ROUNDS = 3
STEPS = 128
SEEDS = 10
CHAINS = (11, 100)  # per seed
CLIP = 1.0
STEP, NOISE = 1e-3, 1.0


def rows(options: Options) -> list[Row]:
    found = []
    for each in CHAINS:
        count = SEEDS * each
        names = {"poisson": "Poisson samples, clipped", "subset": "subsets, not clipped"}
        sides = [*names, "closed form", "vmap(grad)"]
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side in sides:
                taken = isolated(
                    options.threads, one, side, each, options.runs, options.threads, options.scale
                )
                times[side].append(1e6 * taken / (STEPS * count))
        middle = {side: median(taken) for side, taken in times.items()}
        closed, general = middle["closed form"], middle["vmap(grad)"]
        for side, name in names.items():
            own = middle[side]
            found.append(
                Row(
                    f"one chain-step, {count:,} chains, batch {BATCH}, {name}",
                    f"{own:.2f} us ({min(times[side]):.2f} to {max(times[side]):.2f})",
                    f"JAX in closed form {closed:.2f} us ({min(times['closed form']):.2f} to "
                    f"{max(times['closed form']):.2f}), as vmap(grad) {general:.2f} us",
                    f"{closed / own:.2f} and {general / own:.1f} times",
                    ">= 1 times the closed form",
                    verdict(closed >= own),
                    str(options.threads),
                    f"median (and range) of {ROUNDS} processes a side in turns, each the median of {options.runs} runs "
                    f"of {STEPS} steps; JAX draws with replacement",
                )
            )
    return found


def one(side: str, each: int, runs: int, threads: int, scale: str) -> float:
    """Median seconds of a run, alone in its process: the threads of XLA wait by spinning."""
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[:threads]
    )  # XLA takes every core that it is given
    problem = adult.problem(adult.config(scale))
    made = {
        "poisson": lambda: ours(problem, each, "poisson", CLIP),
        "subset": lambda: ours(problem, each, "subset", float("inf")),
        "closed form": lambda: jax_steps(problem, each, closed_form),
        "vmap(grad)": lambda: jax_steps(problem, each, gradients),
    }
    (found,) = medians(runs, made[side]())
    return found


def ours(problem: Glm, each: int, scheme: str, clip: float) -> Callable[[], object]:
    steps = torch.full((STEPS,), STEP, dtype=torch.float64)
    sampling = Sampling(scheme, BATCH, (STEPS + 0.5) * BATCH / problem.n)  # type: ignore[arg-type]
    chains = [Chain(steps, torch.full_like(steps, NOISE), sampling, clip, l2=1e-3) for _ in range(each)]
    rng = random.generator(0, "bench/chains")
    return lambda: run(problem, chains, SEEDS, rng)


def jax_steps(problem: Glm, each: int, sums: Callable[..., Any]) -> Callable[[], object]:
    """`STEPS` steps of `SEEDS` x `each` chains, compiled as one program."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    x, y = jnp.asarray(problem.x[0].numpy()), jnp.asarray(problem.y[0].numpy())
    n, d = x.shape

    @jax.jit
    def program(key: Any) -> Any:
        def step(theta: Any, key: Any) -> tuple[Any, None]:
            of_rows, of_noise = jax.random.split(key)
            rows = jax.random.randint(of_rows, (SEEDS, BATCH), 0, n)
            noisy = sums(theta, x[rows], y[rows]) + NOISE * jax.random.normal(of_noise, (SEEDS, 1, d))
            return theta * (1 - STEP * 1e-3) - STEP / BATCH * noisy, None

        return lax.scan(step, jnp.zeros((SEEDS, each, d)), jax.random.split(key, STEPS))[0]

    key = jax.random.key(0)
    return lambda: program(key).block_until_ready()


def closed_form(theta: Any, x: Any, y: Any) -> Any:
    """Sums of clipped gradients, ``(S, E, d)``; theta ``(S, E, d)``, x ``(S, B, d)``, y ``(S, B)``."""
    import jax
    from jax import numpy as jnp

    slope = jax.nn.sigmoid(-y[:, None] * jnp.einsum("sed,sbd->seb", theta, x))
    cut = jnp.minimum(slope, CLIP / jnp.linalg.norm(x, axis=-1)[:, None])
    return -jnp.einsum("seb,sbd->sed", cut * y[:, None], x)


def gradients(theta: Any, x: Any, y: Any) -> Any:
    """The same from JAX's own gradient of one record's loss."""
    import jax
    from jax import numpy as jnp

    def loss(theta: Any, x: Any, y: Any) -> Any:
        return jax.nn.softplus(-y * (theta @ x))

    def clipped(theta: Any, x: Any, y: Any) -> Any:
        each = jax.vmap(jax.grad(loss), (None, 0, 0))(theta, x, y)  # (B, d)
        norm = jnp.linalg.norm(each, axis=-1, keepdims=True)
        return (each * jnp.minimum(1.0, CLIP / norm)).sum(0)

    return jax.vmap(jax.vmap(clipped, (0, None, None)))(theta, x, y)
