"""Table 4 of ryffel2022, recomputed, and its lemma against the exact Hessian."""

from typing import Any

import head_rows
import numpy as np
import pandas as pd
import pytest
import torch
from head_rows import run

from dplangevin import claims
from dplangevin.claims import table4


def test_printed() -> None:
    frame = pd.DataFrame()
    same = table4.printed(frame, value=0.0179, published=0.018, digits=2, others={})
    assert same["verdict"] == claims.REPRODUCED
    found = table4.printed(frame, value=1.0, published=2.0, digits=1, others={"doubled": 2.1})
    assert (found["verdict"], found["high"]) == (claims.UNDER_CHOICES, 2.1)
    assert (
        table4.printed(frame, value=1.0, published=2.0, digits=1, others={})["verdict"] == claims.CONTRADICTED
    )


def test_smoothness_needs_the_papers_network() -> None:
    ours, theirs = (run(f"cifar10_resnet{n}", "none_constant", 0.7, beta=55.3) for n in (20, 18))
    asked: dict[str, Any] = {"features": "cifar10_resnet18", "published": 55, "digits": 2}
    lacking = table4.smoothness(ours, **asked)
    assert lacking["verdict"] == claims.NOT_TESTABLE
    assert "cifar10_resnet20 55.3" in lacking["reason"]
    assert table4.smoothness(pd.concat([ours, theirs]), **asked)["verdict"] == claims.REPRODUCED


def test_magnitude() -> None:
    """Ratios of 2.5e-2 with d = classes and 3.9e-4 with d = classes x features."""
    frame = head_rows.heads()
    assert table4.magnitude(frame, most=0.1)["verdict"] == claims.REPRODUCED
    assert table4.magnitude(frame, most=1e-3)["verdict"] == claims.UNDER_CHOICES
    assert table4.magnitude(frame, most=1e-5)["verdict"] == claims.CONTRADICTED
    with pytest.raises(claims.NoRows, match="no DP-Langevin run"):
        table4.magnitude(frame[frame.method.eq("none")], most=1.0)


def test_hessian_is_that_of_autograd(rng: np.random.Generator) -> None:
    w, x, y = rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), torch.tensor([0, 1, 2, 1, 0])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(torch.as_tensor(x) @ flat.reshape(3, 2).T, y)

    exact = torch.autograd.functional.hessian(loss, torch.as_tensor(w).flatten()).numpy()
    assert table4.hessian(w, x) == pytest.approx(exact, abs=1e-12)


def test_lemma() -> None:
    """Two classes at W = 0 attain (1/2) lambda_max: with lambda |W|^2 the curvature is lambda above beta."""
    kind: dict[str, Any] = {"problems": 3, "precision": 0.1}
    top = table4.lemma(pd.DataFrame(), classes=[2], end="top", **kind)
    assert top["verdict"] == claims.UNDER_CHOICES
    assert 1.01 < top["ours"] < 1.3
    assert "1 with (λ/2)|W|²" in top["reason"]
    bottom = table4.lemma(pd.DataFrame(), classes=[2], end="bottom", **kind)
    assert (bottom["verdict"], bottom["ours"]) == (claims.REPRODUCED, pytest.approx(2.0))
