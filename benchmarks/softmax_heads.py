"""Softmax regression on features: all seeds and runs of Tables 1 and 2 at once against Opacus, one after the other.

On one thread, on random rows of the shape that ResNet-20 gives CIFAR-10, with the settings of the experiment; what is
timed does not depend on the rows' values.
"""

import math
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from hydra.utils import instantiate
from measure import Options, Row, isolated, verdict

from dplangevin import random
from dplangevin.data import Dataset
from dplangevin.methods import Method
from dplangevin.pipeline.config import compose
from dplangevin.pipeline.plan import runs as runs_of
from dplangevin.privacy import Budget
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.samplers.chains.loop import run

RECORDS, FEATURES, CLASSES, SEEDS, BATCH = 50_000, 256, 10, 10, 128
NOISE = 1.33  # of every run: what is timed does not depend on it
STEPS, PEER_STEPS = 256, 100  # that are timed
REQUIRED, MINUTES = 50, 10


def rows(options: Options) -> list[Row]:
    found: list[Row] = isolated(1, measured, options.runs)
    return found


def measured(runs: int) -> list[Row]:
    """Both sides in one process, in turns."""
    problem = data()
    chains = chains_of(problem)
    dp_sgd = [chain for chain in chains if chain.sampling.scheme == "poisson"]
    kinds = {
        "all runs of Tables 1 and 2": chains,
        "DP-SGD's runs alone": dp_sgd,
        "one run of DP-SGD": dp_sgd[:1],
    }
    sides = {name: ours(problem, some) for name, some in kinds.items()} | {"Opacus": opacus(problem)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(runs + 1):  # the first is a warm-up
        for name, side in sides.items():
            start = time.process_time()
            side()
            if turn:
                times[name].append(
                    (time.process_time() - start) / (PEER_STEPS if name == "Opacus" else STEPS)
                )
    seconds = {name: median(values) for name, values in times.items()}
    total, peer = RECORDS * 30 // BATCH, seconds.pop("Opacus")
    found = []
    for name, step in seconds.items():
        each, required = step / SEEDS / len(kinds[name]), name.startswith("all")
        found.append(
            Row(
                f"30 epochs of a head, {name}, {len(kinds[name])} x {SEEDS} seeds",
                f"{each * total:.2f} s a run and seed",
                f"Opacus {peer * total:.1f} s",
                f"{peer / each:.0f} times faster",
                f">= {REQUIRED} times" if required else "-",
                verdict(peer / each >= REQUIRED) if required else "-",
                "1",
                f"processor time, medians of {runs}; {total} steps extrapolated from {STEPS} of ours "
                f"({1e6 * each:.1f} us a run and seed) and {PEER_STEPS} of Opacus ({1e3 * peer:.2f} ms)",
            )
        )
    minutes = seconds["all runs of Tables 1 and 2"] * total / 60
    found.append(
        Row(
            f"training of Tables 1 and 2 on CIFAR-10, {len(chains)} x {SEEDS} seeds",
            f"{minutes:.1f} minutes",
            "-",
            f"{len(chains) * SEEDS} chains of {total} steps",
            f"< {MINUTES} minutes",
            verdict(minutes < MINUTES),
            "1",
            f"extrapolated from {STEPS} steps; prices and audits of the rows take about a minute more",
        )
    )
    return found


def chains_of(problem: Glm) -> list[Chain]:
    """The runs of ryffel2022_cifar10, `STEPS` steps of each, with noise as if calibrated."""
    cfg, found = compose(), []
    for each in runs_of(cfg, "ryffel2022_cifar10", "cifar10_resnet20"):
        noise = {"dp_sgd": {"noise_multiplier": NOISE}, "dp_sgld_ryffel2022": {"noise_std": 0.002}}
        method: Method = instantiate({**each.config, **noise.get(each.method, {})})
        chain = method.plan(problem.facts, Budget(each.epsilons[0], 1e-5)).work
        found.append(chain._replace(step=chain.step[:STEPS], noise_std=chain.noise_std[:STEPS], keep=()))
    return found


def data() -> Glm:
    rng = np.random.default_rng(1)
    x = np.abs(rng.normal(size=(RECORDS, FEATURES))).astype(np.float32)
    y = rng.integers(0, CLASSES, RECORDS)
    features = Dataset.from_arrays(x, y, x[:10], y[:10], {"classes": CLASSES})
    return Glm.of_features(features, SEEDS, 16.0, 15 / math.sqrt(2), "private")


def ours(problem: Glm, chains: list[Chain]) -> Callable[[], object]:
    schemes = {"poisson", "subset"}
    return lambda: run(problem, chains, SEEDS, random.generator(1, "bench"), schemes=schemes)


def opacus(problem: Glm) -> Callable[[], object]:
    """Its loop as its documentation has it, Poisson samples included, for one seed."""
    module = torch.nn.Linear(FEATURES, CLASSES, bias=False)
    records = torch.utils.data.TensorDataset(problem.x[0], problem.y[0].long())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus import PrivacyEngine

        made: Any = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.01, weight_decay=0.001),
            data_loader=torch.utils.data.DataLoader(records, batch_size=BATCH),
            noise_multiplier=NOISE,
            max_grad_norm=5.0,
        )
    module, optimiser, loader = made
    criterion = torch.nn.CrossEntropyLoss()

    def steps() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _, (x, y) in zip(range(PEER_STEPS), loader, strict=False):
                optimiser.zero_grad()
                criterion(module(x), y).backward()
                optimiser.step()

    return steps
