"""Tidy rows of what was trained: its scores, what was promised for it and what it costs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from dplangevin.data import Dataset
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.scores import reliability, scores
from dplangevin.training import Trained
from dplangevin.training.prices import NEIGHBOURS

TABLES = ("final", "curve", "reliability")
SETTING = ["experiment", "run", "dataset", "network", "method", "epsilon"]
SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event
SPENT = [f"epsilon_{kind}" for kind in NEIGHBOURS]
CURVE = [*SETTING, "seed", "epoch", "accuracy", "loss", *SPENT]


def tables(
    setting: Mapping[str, Any],
    trained: Trained,
    images: Dataset,
    formula: Accountant,
    assumptions: Sequence[str],
) -> dict[str, pd.DataFrame]:
    """The tables of one budget, by name.

    final: one row a seed, with the scores of the best predictor (the posterior average where there is one) and, ending
    in _single, of one network; epsilon_formula, what the paper's accountant `formula` charges for the event where it
    has a theorem for it (else the learner's own claim), and the tight prices for both kinds of neighbours; violated
    says so where the learner's accountant charges more than was asked.  curve: as `Trained.curve`.  reliability: one
    row a seed, predictor and bin of confidence.  setting: values of the columns that all rows share.
    """
    guarantee = trained.guarantee
    which = slice(None) if trained.rows is None else trained.rows
    answers = torch.as_tensor(images.arrays().y_test)[which]
    predicted = {name: value[:, which] for name, value in trained.predicted.items()}
    found = {name: scores(value, answers) for name, value in predicted.items()}
    best, single = found.get("average", found["single"]), found["single"]
    claimed, by = charged(formula, trained)
    common = {
        **{name: setting[name] for name in [*SETTING, "block"]},
        "delta": guarantee.delta,
        "epsilon_formula": claimed,
        "accountant": by,
        **prices(trained),
        "sampling": guarantee.sampling,
        "released": guarantee.released,
        **{name: trained.settings.get(name, math.nan) for name in ("step", "clip", "noise_multiplier")},
        **{name: setting.get(name, math.nan) for name in ("batch", "epochs")},
    }
    over_budget = guarantee.epsilon > setting["epsilon"] * (1 + SLACK)
    over = f"costs {guarantee.epsilon:.4g}, more than the {setting['epsilon']:g} asked" if over_budget else ""
    last = {
        "violated": "; ".join(filter(None, [trained.violated, over])),
        "assumptions": "; ".join(dict.fromkeys([*guarantee.assumptions, *assumptions])),
    }
    final = []
    for seed in range(len(predicted["single"])):
        row = {**common, "seed": seed, **{name: float(value[seed]) for name, value in best.items()}}
        row |= {f"{name}_single": float(value[seed]) for name, value in single.items()}
        row |= {name: values[seed] for name, values in trained.info.items()}
        final.append(row | last)
    names = {name: setting[name] for name in SETTING}
    bins = [
        {**names, "predictor": predictor, **row}
        for predictor, value in predicted.items()
        for row in reliability(value, answers)
    ]
    curve = pd.DataFrame([{**names, **row} for row in trained.curve], columns=CURVE)
    return {"final": pd.DataFrame(final), "curve": curve, "reliability": pd.DataFrame(bins)}


def charged(formula: Accountant, trained: Trained) -> tuple[float, str]:
    """What the paper's accountant charges, and its name; the learner's own claim where that has no theorem."""
    guarantee = trained.guarantee
    try:
        return formula.epsilon(guarantee.event, guarantee.delta, "add_remove"), formula.name
    except ValueError:
        return guarantee.epsilon, "the method's own"


def prices(trained: Trained) -> dict[str, float]:
    """Tight prices of the event, by column."""
    guarantee = trained.guarantee
    return {
        "epsilon_add_remove": Tight().epsilon(guarantee.event, guarantee.delta, "add_remove"),
        "epsilon_replace_one": Tight().epsilon(guarantee.event, guarantee.delta, "replace_one"),
    }
