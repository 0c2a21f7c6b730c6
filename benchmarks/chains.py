"""DP-SGLD's step on Adult at 110 and at 1,000 chains: ours against JAX, compiled and vectorised, on the same cores.

JAX as an expert would write it, the norm of a record's gradient in closed form, on Poisson samples of the same law as
ours (gaps between rows are geometric) and on rows drawn with replacement, which cost less but have no such price; and
once as `vmap(grad)` of one record's loss, with replacement.  Seeds have minibatches of their own, which their chains
share, as ours do.
"""

import math
import os
from collections.abc import Callable
from statistics import median
from typing import Any

import adult
import torch
from measure import Options, Row, isolated, medians, verdict

from dplangevin import random
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run

BATCH = 512
RUNS = 3  # of a process, after one to warm up
STEPS = 128
SEEDS = 10
CHAINS = (11, 100)  # per seed
CLIP = 1.0
STEP, NOISE = 1e-3, 1.0
LONGEST = 640  # of JAX's Poisson samples, whose shape is fixed: 1e-8 are longer, and 648 rows take 1.4 times as long


NAMES = {"poisson": "Poisson samples, clipped", "subset": "subsets, not clipped"}
PEERS = {"poisson": "JAX, Poisson samples", "subset": "JAX, with replacement"}
GENERAL = "JAX, vmap(grad)"


def rows(options: Options) -> list[Row]:
    """Compare on all threads, and on one thread on Poisson samples only."""
    problem = adult.problem(adult.config(options.scale))
    found = [row for each in CHAINS for row in compared(problem, options.threads, each, [*NAMES], options)]
    if options.threads > 1:
        found += [row for each in CHAINS for row in compared(problem, 1, each, ["poisson"], options)]
    return found


def compared(problem: Glm, threads: int, each: int, schemes: list[str], options: Options) -> list[Row]:
    """Return a row for each sampling scheme, with `each` chains a seed."""
    count, every = SEEDS * each, len(schemes) == len(NAMES) and each == CHAINS[0]
    sides = [*schemes, *(PEERS[scheme] for scheme in schemes), *([GENERAL] if every else [])]
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(options.runs):
        for side in sides:
            taken = isolated(threads, one, problem, side, each, threads)
            times[side].append(1e6 * taken / (STEPS * count))
    middle = {side: median(taken) for side, taken in times.items()}
    found = []
    for scheme in schemes:
        peer = PEERS[scheme]
        ratios = [middle[other] / middle[scheme] for other in (peer, GENERAL) if other in middle]
        found.append(
            Row(
                f"one chain-step, {count:,} chains, batch {BATCH}, {NAMES[scheme]}",
                f"{middle[scheme]:.2f} us ({min(times[scheme]):.2f} to {max(times[scheme]):.2f})",
                f"{peer}, closed form {middle[peer]:.2f} us ({min(times[peer]):.2f} to {max(times[peer]):.2f})"
                + (f"; vmap(grad) {middle[GENERAL]:.2f} us" if every else ""),
                " and ".join(f"{ratio:.2f}" for ratio in ratios) + " times",
                ">= 1 times the closed form",
                verdict(ratios[0] >= 1),
                str(threads),
                f"median (and range) of {options.runs} processes a side in turns, each the median of {RUNS} runs "
                f"of {STEPS} steps; JAX clips in both",
            )
        )
    return found


def one(problem: Glm, side: str, each: int, threads: int) -> float:
    """Median seconds of a run, alone in its process: the threads of XLA wait by spinning."""
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[:threads]
    )  # XLA takes every core that it is given
    made = {
        "poisson": lambda: ours(problem, each, "poisson", CLIP),
        "subset": lambda: ours(problem, each, "subset", float("inf")),
        PEERS["poisson"]: lambda: jax_steps(problem, each, closed_form, poisson=True),
        PEERS["subset"]: lambda: jax_steps(problem, each, closed_form),
        GENERAL: lambda: jax_steps(problem, each, gradients),
    }
    (found,) = medians(RUNS, made[side]())
    return found


def ours(problem: Glm, each: int, scheme: str, clip: float) -> Callable[[], object]:
    steps = torch.full((STEPS,), STEP, dtype=torch.float64)
    sampling = Sampling(scheme, BATCH, (STEPS + 0.5) * BATCH / problem.n)  # type: ignore[arg-type]
    chains = [Chain(steps, torch.full_like(steps, NOISE), sampling, clip, l2=1e-3) for _ in range(each)]
    rng = random.generator(0, "bench/chains")
    return lambda: run(problem, chains, SEEDS, rng)


def jax_steps(
    problem: Glm, each: int, sums: Callable[..., Any], *, poisson: bool = False
) -> Callable[[], object]:
    """`STEPS` steps of `SEEDS` x `each` chains, compiled as one program."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    x, y = jnp.asarray(problem.x[0].numpy()), jnp.asarray(problem.y[0].numpy())
    n, d = x.shape

    def drawn(key: Any) -> tuple[Any, Any]:
        """Rows and which of them take part, ``(S, B)`` each."""
        if not poisson:
            return jax.random.randint(key, (SEEDS, BATCH), 0, n), jnp.ones((SEEDS, BATCH))
        uniform = jax.random.uniform(key, (SEEDS, LONGEST), minval=jnp.finfo(jnp.float32).tiny)
        gaps = 1 + (jnp.log(uniform) / math.log1p(-BATCH / n)).astype(jnp.int32)
        rows = jnp.cumsum(gaps, 1) - 1
        return jnp.minimum(rows, n - 1), (rows < n).astype(jnp.float32)

    @jax.jit
    def program(key: Any) -> Any:
        of_rows, of_noise = jax.random.split(key)
        rows, inside = jax.vmap(drawn)(jax.random.split(of_rows, STEPS))  # quicker than within a step
        normals = jax.random.normal(of_noise, (STEPS, SEEDS, 1, d))

        def step(theta: Any, each: Any) -> tuple[Any, None]:
            rows, inside, normals = each
            noisy = sums(theta, x[rows], y[rows] * inside) + NOISE * normals
            return theta * (1 - STEP * 1e-3) - STEP / BATCH * noisy, None

        return lax.scan(step, jnp.zeros((SEEDS, each, d)), (rows, inside, normals))[0]

    key = jax.random.key(0)
    return lambda: program(key).block_until_ready()


def closed_form(theta: Any, x: Any, y: Any) -> Any:
    """Sums of clipped gradients, ``(S, E, d)``; theta ``(S, E, d)``, x ``(S, B, d)``, y ``(S, B)``, 0 where a row
    takes no part."""
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
