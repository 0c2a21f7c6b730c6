"""SG-MCMC kernels on Adult: a step of one chain in a batch of all chains, of one chain alone, and of `posteriors`."""

import warnings
from collections.abc import Callable
from typing import Any

import adult
import torch
import torch.nn.functional as F
from measure import Options, Row, medians
from torch import Tensor

from dplangevin import random
from dplangevin.problems.glm import Glm
from dplangevin.samplers.kernels.sgfs import SgfsState, sgfs
from dplangevin.samplers.kernels.sghmc import SghmcState, sghmc
from dplangevin.samplers.kernels.sgld import SgldState, sgld
from dplangevin.samplers.kernels.sgnht import SgnhtState, sgnht

BATCH = 512
STEPS = {"sgld": 400, "sghmc": 400, "sgnht": 400, "sgfs": 40}  # a run of ours
ALONE = 200  # steps of a single chain, ours or the peer's
BUDGETS = 11  # with ten repeats 110 chains, as in Figure 1c
STEP_SIZE, FRICTION = 1e-5, 0.1


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem, seeds = adult.problem(cfg), cfg.repeats
    found = []
    for name, steps in STEPS.items():
        sides = [chain(name, problem, seeds, BUDGETS, steps), chain(name, problem, 1, 1, ALONE)]
        if name != "sgfs":
            sides.append(peer(name, problem.x[0], problem.y[0]))
        times = medians(options.runs, *sides)
        ours = 1e6 * times[0] / (steps * seeds * BUDGETS)
        others = [1e6 * time / ALONE for time in times[1:]]
        names = ["one chain at a time", "posteriors"]
        found.append(
            Row(
                f"{name}, one chain-step, batch {BATCH}",
                f"{ours:.1f} us",
                "; ".join(f"{who} {value:.0f} us" for who, value in zip(names, others, strict=False)),
                " and ".join(f"{value / ours:.0f}" for value in others) + " times",
                "-",
                "-",
                str(options.threads),
                f"median of {options.runs} runs in turns; ours {steps} steps of {seeds * BUDGETS} chains, "
                f"the others {ALONE} steps of one; {'posteriors has no sgfs' if name == 'sgfs' else 'd = 109'}",
            )
        )
    return found


def chain(name: str, problem: Glm, seeds: int, budgets: int, steps: int) -> Callable[[], object]:
    """A run of our kernel: minibatches without replacement, noise, gradient, update."""
    eta = torch.full((budgets, 1), STEP_SIZE)
    std = (2 * FRICTION * eta).sqrt() if name in ("sghmc", "sgnht") else (2 * eta).sqrt()
    rng = random.generator(0, "bench/kernels")

    def run() -> object:
        kernel, state = start(name, problem, seeds, budgets)
        sizes = seeds, problem.n, BATCH, problem.d, steps, 256
        for rows, _, normals in random.batches(rng, {"subset"}, *sizes):
            total = problem.clipped_sum(state.theta, rows, None, None).gradient
            more: tuple[Tensor, ...] = ()
            if name == "sgfs":
                more = (covariance(problem, state.theta, rows), torch.full((budgets, 1), 0.1))
            state = kernel.step(state, total * (problem.n / BATCH) + state.theta, std * normals, eta, *more)
        return state

    return run


def start(name: str, problem: Glm, seeds: int, budgets: int) -> tuple[Any, Any]:
    """The kernel and chains at theta = 0."""
    theta = torch.zeros(seeds, budgets, problem.d)
    if name == "sgld":
        return sgld(), SgldState(theta)
    if name == "sghmc":
        return sghmc(FRICTION), SghmcState(theta, torch.zeros_like(theta))
    if name == "sgnht":
        return sgnht(), SgnhtState(
            theta, torch.zeros_like(theta), torch.full((*theta.shape[:2], 1), FRICTION)
        )
    fisher = torch.eye(problem.d).expand(seeds, budgets, -1, -1) / 4
    return sgfs(torch.eye(problem.d), problem.n, BATCH), SgfsState(theta, fisher)


def covariance(problem: Glm, theta: Tensor, rows: Tensor) -> Tensor:
    """The minibatch's covariance of gradients, ``(R, E, d, d)``."""
    grads = problem.example_grads(theta, rows)  # (R, E, tau, d)
    grads = grads - grads.mean(-2, keepdim=True)
    return grads.mT @ grads / (BATCH - 1)


def peer(name: str, x: Tensor, y: Tensor) -> Callable[[], object]:
    """A run of `posteriors` on the same posterior, one chain, minibatches drawn with replacement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        from posteriors import sgmcmc

    build = getattr(sgmcmc, name).build

    def log_posterior(theta: Tensor, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        rows, labels = batch
        value = F.logsigmoid(labels * (rows @ theta)).sum() * (len(x) / BATCH) - theta.square().sum() / 2
        return value, torch.tensor(0.0)

    settings = {} if name == "sgld" else {"alpha": FRICTION}
    transform = build(log_posterior, lr=STEP_SIZE, **settings)
    rng = random.generator(0, "bench/kernels/peer")

    def run() -> object:
        state = transform.init(torch.zeros(x.shape[1]))
        for _ in range(ALONE):
            at = torch.randint(len(x), (BATCH,), generator=rng)
            state, _ = transform.update(state, (x[at], y[at]))
        return state

    return run
