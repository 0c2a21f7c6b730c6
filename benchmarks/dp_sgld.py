"""DP-SGLD on Adult: one step of one chain, ours in a batch of all chains, Opacus one chain at a time."""

import math
import warnings
from collections.abc import Callable

import adult
import torch
from hydra.utils import instantiate
from measure import Options, Row, medians, verdict
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from dplangevin import random
from dplangevin.methods import Execution
from dplangevin.methods.dp_sgld import DpSgldWang2015
from dplangevin.problems.glm import Glm

BATCH = 512
OUR_STEPS = 512
FIXED_STEPS = 500
LOADER, FIXED = 100, 30  # times faster than Opacus with its loader, on a fixed batch


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem = adult.problem(cfg)
    steps, ours = chains(cfg, problem)
    with warnings.catch_warnings():
        for message in ("Secure RNG turned off", "Full backward hook is firing"):  # as meant, in both cases
            warnings.filterwarnings("ignore", message, UserWarning)
        loader_steps, loader = opacus(problem.x[0], problem.y[0], poisson=True)
        fixed_steps, fixed = opacus(problem.x[0, :BATCH], problem.y[0, :BATCH], poisson=False)
        times = medians(options.runs, ours, loader, fixed)
    count = cfg.repeats * len(adult.budgets(cfg))
    own = 1e6 * times[0] / (steps * count)
    shown = f"{own:.1f} us"
    how = f"median of {options.runs} runs in turns; steps per run: ours {steps} x {count} chains, Opacus "
    found = []
    for name, required, total, taken in (
        ("its own Poisson loader", LOADER, times[1], loader_steps),
        ("one fixed batch", FIXED, times[2], fixed_steps),
    ):
        peer = 1e6 * total / taken
        found.append(
            Row(
                f"DP-SGLD, one chain-step, batch {BATCH}, Opacus with {name}",
                shown,
                f"Opacus {peer:.0f} us",
                f"{peer / own:.0f} times",
                f">= {required} times",
                verdict(peer / own >= required),
                str(options.threads),
                f"{how}{taken} x 1 chain",
            )
        )
    return found


def chains(cfg: DictConfig, problem: Glm) -> tuple[int, Callable[[], object]]:
    """Number of steps and a run of DP-SGLD's loop: subsets, noise, gradients, update, thinned iterates kept."""
    sampling = {"batch": BATCH, "epochs": (OUR_STEPS + 0.5) * BATCH / problem.n}
    method: DpSgldWang2015 = instantiate(OmegaConf.merge(cfg.method.dp_sgld, {"sampling": sampling}))
    plans = [method.plan(problem.facts, budget) for budget in adult.budgets(cfg)]
    rng = random.generator(cfg.seed, "bench/dp_sgld")
    return len(plans[0].work.step), lambda: method.release(problem, plans, Execution(cfg.repeats, rng))


def opacus(x: Tensor, y: Tensor, poisson: bool) -> tuple[int, Callable[[], None]]:
    """Number of steps (with the loader: an epoch) and a run of Opacus on the same logistic regression.

    No bias: the features hold a constant already.
    """
    from opacus import PrivacyEngine

    data = TensorDataset(x, (y[:, None] + 1) / 2)
    model = nn.Linear(x.shape[1], 1, bias=False)
    model, optimiser, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=poisson,
    )
    loss = nn.BCEWithLogitsLoss()

    def step(rows: Tensor, labels: Tensor) -> None:
        optimiser.zero_grad()
        loss(model(rows), labels).backward()
        optimiser.step()

    def epoch() -> None:
        for rows, labels in loader:
            step(rows, labels)

    def repeated() -> None:
        for _ in range(FIXED_STEPS):
            step(*data.tensors)

    return (math.ceil(len(x) / BATCH), epoch) if poisson else (FIXED_STEPS, repeated)
