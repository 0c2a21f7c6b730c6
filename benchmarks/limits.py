"""What share of the machine's limits objective perturbation, the posterior sampler and two attacks reach on Adult.

The work is what torch's operations ask for, counted in a run of its own.  Its least time is that of its products at
the measured rate of a product of large matrices, in the same precision, and that of its bytes at the measured rate of
a copy.  Operations whose arguments are in a cache are faster than a copy.  So the share of memory may exceed 100 %.
Numbers that numpy draws are in the time, and in neither limit.
"""

from collections.abc import Callable
from functools import partial

import adult
import torch
from attack import attacked
from hydra.utils import instantiate
from measure import Options, Row, medians
from omegaconf import OmegaConf
from roofline import Machine, shares, work
from sampler import DRAWS, RADIUS, hmc

from dplangevin import random
from dplangevin.methods import released
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm

EPSILON = 1.0  # of OPS
FIRST = 5  # operations that a row names


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem = adult.problem(cfg)
    rng = partial(random.generator, cfg.seed, "bench/limits")
    budgets = adult.budgets(cfg)
    perturbed = instantiate(cfg.method.objpert)
    settings = {"boundary": "sphere", "block": DRAWS, "max_draws": DRAWS}
    ops = instantiate(
        OmegaConf.merge(cfg.method.ops, {"bound": "range", "radius": RADIUS, "sampler": settings})
    )
    one = [Budget(EPSILON, cfg.delta)]
    calls: dict[str, Callable[[], object]] = {
        f"ObjPert, {cfg.repeats * len(budgets)} solves": lambda: released(
            perturbed, problem, budgets, cfg.repeats, rng()
        ),
        f"OPS at ε = {EPSILON:g}, {cfg.repeats} chains of {DRAWS} draws": lambda: released(
            ops, problem, one, cfg.repeats, rng()
        ),
        "posterior under N(0, I) by HMC, 4 chains": lambda: hmc(problem, 0),
        "gradient of 110 fits on all rows, float32": lambda: gradients(problem, torch.float32),
        "gradient of 110 fits on all rows, float64": lambda: gradients(problem, torch.float64),
        "attack on a visible chain": attacked,
    }
    machines = {dtype: Machine.measured(options.runs, dtype) for dtype in (torch.float32, torch.float64)}
    return [row(name, call, machines, options) for name, call in calls.items()]


def gradients(problem: Glm, dtype: torch.dtype) -> torch.Tensor:
    """Return the gradient of the loss at 110 points: the pass that solvers and samplers repeat."""
    return problem.to(dtype).grad(torch.zeros(10, 11, problem.d, dtype=dtype))


def row(name: str, call: Callable[[], object], machines: dict[torch.dtype, Machine], options: Options) -> Row:
    (taken,) = medians(options.runs, call)
    asked = work(call)
    products = sum(flops / machines[dtype].flops for dtype, flops in asked.flops.items())
    memory = asked.bytes / machines[torch.float32].bytes
    return Row(
        name,
        f"{taken:.2f} s",
        f"least: products {products:.2f}, memory {memory:.2f} s",
        f"{products / taken:.0%} of the rate of products, {memory / taken:.0%} of that of a copy",
        *("-", "-", str(options.threads)),
        f"median of {options.runs}; {asked}; the time goes to {shares(call, FIRST, calls=1)}",
    )
