"""Softmax regression on the features of a public network: ryffel2022's DP-Langevin against DP-SGD and no privacy.

One method per module, a frozen dataclass whose fields are a run's `head:` in `conf/heads/<id>.yaml`; its `price` says
how much noise it takes and what that costs, its `trained` trains the runs that share a random stream at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from dplangevin.checks import positive
from dplangevin.problem import Problem

NAN = math.nan
# What a method's `price` says of a run: columns, "noise" and what else it needs to train.
Priced = dict[str, Any]
COLUMNS = [
    "experiment",
    "features",
    "run",
    "block",
    "method",
    "schedule",
    "calibration",
    "seed",
    "accuracy",
    "log_loss",
    "epsilon",
    "delta",
    "epsilon_paper",
    "epsilon_formula_epochs",
    "epsilon_formula_steps",
    "epsilon_tight",
    "accountant_tight",
    "adjacency_tight",
    "epsilon_tight_add_remove",
    "epsilon_last",
    "epsilon_audit",
    "audit_confidence",
    "audit_pair",
    "step_size",
    "precision",
    "beta",
    "clip",
    "noise_std",
    "noise_multiplier",
    "batch",
    "epochs",
    "steps",
    "row_bound",
    "records",
    "features_dim",
    "classes",
    "violated",
    "assumptions",
]


@dataclass(frozen=True)
class Audits:
    """Runs of an attack on a row, per data set: `single`, if it sees the last iterate; `chain`, if it sees all."""

    single: int
    chain: int
    confidence: float = 0.95


@dataclass(frozen=True)
class Setting:
    """What the methods know of a data set besides its rows.

    records n, features p, classes K; row_bound: ``||x|| <= row_bound``, public, inf for none; spread: the largest
    eigenvalue of ``X^T X/n``, read off the private rows, or its public bound row_bound^2; delta of every epsilon.
    """

    records: int
    features: int
    classes: int
    row_bound: float
    spread: float
    delta: float
    audits: Audits
    public: bool = False  # spread is the public bound

    @property
    def step_source(self) -> str:
        """Where the step sizes of `chains.step_sizes` come from, for a row's assumptions."""
        if self.public:
            return "step size from the public bound on smoothness, row_bound^2/2 + lambda"
        return "step size from the largest eigenvalue of the private features, not accounted"

    @property
    def lipschitz(self) -> float:
        """sqrt(2) row_bound, of every record's loss without its ridge."""
        return math.sqrt(2) * self.row_bound

    def beta(self, precision: float) -> float:
        """``spread/2 + lambda``, smoothness of the mean loss (ryffel2022, Lemma of section 5.1)."""
        return self.spread / 2 + precision

    def record_beta(self, precision: float) -> float:
        """``row_bound^2/2 + lambda``, smoothness of every record's loss."""
        return self.row_bound**2 / 2 + precision

    def columns(self) -> dict[str, Any]:
        return {
            "delta": self.delta,
            "row_bound": self.row_bound,
            "records": self.records,
            "features_dim": self.features,
            "classes": self.classes,
        }


class Trained(NamedTuple):
    """theta ``(R, E, d)``, the last iterate of every seed and run; violated: per run, what the draw did not reach."""

    theta: Tensor
    violated: list[str]


class Head(Protocol):
    """A method of conf/head."""

    name: ClassVar[str]

    @property
    def schedule(self) -> str: ...

    @property
    def calibration(self) -> str: ...

    def stream(self, setting: Setting) -> str:
        """Name of the random stream; runs of one name draw the same batches and noise and are trained together."""
        ...

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        """What does not depend on the seed; "noise" is 0 for none.  epsilon: asked for, nan for none."""
        ...

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        """Train every (method, what it found) of a stream for all seeds."""
        ...


def steps_of(records: int, batch: int, epochs: float) -> int:
    """round(epochs n/batch), at least 1."""
    positive(batch=batch, epochs=epochs)
    if batch > records:
        raise ValueError(f"batch = {batch} is larger than the data set ({records} rows): lower it")
    return max(1, round(epochs * records / batch))
