"""Rules for claims of ryffel2022 on constants, and the ratio that decides how its number of steps grows with n.

Theorem 4.2 takes K = max((beta/lambda) q, (lambda/beta) q^2), where q = eps n^2/(alpha d) and d is the number of
parameters. The printed ratios q/(beta/lambda)^2 come out with eps = 1, d the number of classes, and the best alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, Verdict, within
from dplangevin.papers.statistics import matches
from dplangevin.reporting import words

DELTA = 1e-5  # delta of the (epsilon, delta) version of Theorem 4.2


def growth_ratios(
    frame: pd.DataFrame, *, paper: Sequence[Mapping[str, Any]], features: Mapping[str, Mapping[str, str]]
) -> pd.DataFrame:
    """Return the growth ratios of the paper's networks and of ours (DP-Langevin, constant steps), one row for each."""
    rows = [{"source": "paper", **entry} for entry in paper]
    settings = {"method": "dp_sgld_ryffel2022", "calibration": "published", "schedule": "constant"}
    for name, group in frame[matches(frame, settings)].groupby("dataset", sort=False):
        of = features.get(str(name), {"task": str(name), "network": str(name)})
        first = (group[group.block.eq("code")] if group.block.eq("code").any() else group).iloc[0]
        own = {key: first[key] for key in ("smoothness", "l2", "records", "parameters", "classes", "delta")}
        log = -math.log(first.delta)  # the order at which a alpha + ln(1/delta)/(alpha - 1) is smallest
        order = 1 + math.sqrt(log) / (math.sqrt(log + first.epsilon_formula_epochs) - math.sqrt(log))
        row: dict[str, Any] = {"source": "ours", "task": of["task"], "network": of["network"], **own}
        rows.append({**row, "order": order, "ratio_published": math.nan})
    table = pd.DataFrame(rows)
    if table.empty:
        raise verdicts.NoRows("no DP-Langevin run in the authors' settings with constant steps")
    table["condition"] = table.smoothness / table.l2
    per_record = table.records**2 / table.condition**2  # epsilon is 1, in the proof 1/2
    table["ratio_classes"] = per_record / (table.order * table.classes)
    table["ratio_theorem"] = per_record / (table.order * table.parameters)
    table["ratio_proof"] = 0.5 * per_record / ((1 - 2 * math.log(DELTA)) * table.parameters)
    return table


def smoothness(frame: pd.DataFrame, *, features: str, published: float, digits: int) -> Verdict:
    """Test a printed beta against that of our features of the paper's network; it is not testable without these."""
    rows, asked = frame[frame.dataset.eq(features) & frame.smoothness.notna()], AskedRange.near(published)
    if len(rows):
        return within(float(rows.smoothness.iloc[0]), asked, "β", digits=digits)
    have = frame[frame.dataset.str.startswith(features.split("_")[0])].groupby("dataset").smoothness.first()
    listed = ", ".join(f"{words.features(name)}: {value:.3g}" for name, value in have.items())
    reason = f"there are no {words.features(features)}, and β of other networks says nothing "
    reason += f"({listed or 'none'})"
    return verdicts.not_testable(reason, asked)


def lemma(
    frame: pd.DataFrame, *, problems: int, classes: Sequence[int], precision: float, end: str
) -> Verdict:
    """Test the constants of the lemma of Section 5.1 against the exact Hessian of the regularised softmax loss.

    The Hessian is computed on `problems` random data sets for each number of classes, at three W. The other choice is
    the regulariser of the proof, (lambda/2) |W|^2. `precision` is lambda; `end` says which eigenvalue, top or bottom.
    """
    import torch  # imported here, so that whoever only reads verdicts does not wait for it

    from dplangevin.random import generator

    rng = generator(0, "ryffel2022/lemma")
    top = end == "top"
    found = []  # smallest or largest curvature of the loss over the constant, lambda over the constant
    for c in (c for c in classes for _ in range(problems)):
        x = torch.randn(30, 3, generator=rng, dtype=torch.float64)
        constant = 0.5 * float(torch.linalg.eigvalsh(x.T @ x / 30)[-1]) + precision if top else precision
        for size in (0.0, 0.3, 3.0):
            w = size * torch.randn(c, 3, generator=rng, dtype=torch.float64)
            # the Hessian of the mean cross-entropy, which does not depend on the labels
            hessian = torch.autograd.functional.hessian(
                lambda w, x=x: (x @ w.T).logsumexp(1).mean(), w
            ).reshape(3 * c, 3 * c)
            found.append(
                (float(torch.linalg.eigvalsh(hessian)[-1 if top else 0]) / constant, precision / constant)
            )
    curvature, regulariser = np.array(found).T
    as_printed, of_proof = (pd.Series(curvature + factor * regulariser) for factor in (2.0, 1.0))
    asked = AskedRange(high=1.0) if top else AskedRange(low=1.0)
    what = "largest eigenvalue of the Hessian over β" if top else "smallest eigenvalue of the Hessian over λ"
    others, ours = {"with (λ/2)|W|²": of_proof}, "max" if top else "min"
    return within(as_printed, asked, f"{what}, with λ|W|²", ours=ours, strict=True, others=others)
