"""The exhibits of the GAN: each number and picture from the rows that it is of."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import scored

from dplangevin.papers.exhibits import gan
from dplangevin.reporting.read import by_seed

PUBLISHED = [{"where": {"method": "dp_sgd", "epsilon": 0.2}, "epsilon": 0.2, "accuracy": 0.908}]
PROBLEMS = {"gan labels=private": "Private", "gan labels=public": "Public"}
COVERAGE = {"recognised": 0.5, "digits_covered": 8.0, "digit_entropy": 2.0}


def run(run: str, method: str, epsilon: float, accuracy: float, labels: str, **other: Any) -> pd.DataFrame:
    """Three seeds, .01 apart."""
    row: dict[str, Any] = {
        "experiment": "li2019_gan", "dataset": "mnist", "problem": "gan", "run": run, "method": method,
        "variant": f"problem.labels={labels}" if labels else "", "block": "equal", "epsilon": epsilon, "delta": 1e-5,
        "epsilon_promised": epsilon, "accountant_promised": "tight", "epsilon_add_remove": 0.99 * epsilon,
        "epsilon_replace_one": 1.9 * epsilon, "step_size": 0.1, "batch": 128, "epochs": 4, "steps": 1875, "clip": 1.0,
        "noise_multiplier": 2.0, "records": 60000, "parameters": 25755, "assumptions": "a", "violated": "",
    }  # fmt: skip
    scores: dict[str, Any] = {"accuracy": accuracy + 0.01 * np.arange(-1, 2), "log_loss": np.full(3, 0.5)}
    if "problem" not in other:
        scores |= {name: np.full(3, value) for name, value in COVERAGE.items()}
    return scored(scores, **{**row, **other})


@pytest.fixture
def rows() -> pd.DataFrame:
    free = {"block": "nonprivate", "epsilon_add_remove": math.inf, "epsilon_replace_one": math.inf}
    frames = [run("labels", "sgd", math.inf, 0.8, "", problem="gan_labels", **free)]
    for labels, lift in (("private", 0.0), ("public", 0.5)):
        frames.append(run("sgd", "sgd", math.inf, 0.3 + lift, labels, **free))
        frames += [run("dp_sgd", "dp_sgd", e, 0.2 + lift, labels) for e in (0.2, 1.0)]
        frames.append(run("dp_sghmc", "dp_sghmc_li2019", 0.2, 0.25 + lift, labels))
        frames.append(run("dp_sgd_moments", "dp_sgd", 0.2, 0.15 + lift, labels, block="moments"))
    return by_seed(pd.concat(frames, ignore_index=True))


def test_pictures_stand_in_the_row_of_their_learner() -> None:
    columns = ["problem", "block", "method", "run", "variant", "epsilon", *COVERAGE, "image", "pixels"]
    frame = pd.DataFrame(
        [
            ["gan", "equal", "dp_sgd", "dp_sgd", f"problem.labels={labels}", e, 0.5, 8.0, 2.0, i, pixels * 2]
            for labels in ("private", "public")
            for e, pixels in ((0.2, "0f"), (8.0, "f0"))
            for i in range(10)
        ],
        columns=columns,
    )
    figure = gan.pictures(frame, problems=PROBLEMS, title="t")
    drawn = [ax for ax in figure.axes if ax.images]
    assert len(drawn) == 4
    first = next(ax for ax in drawn if "ε 8" in ax.get_title()).images[0].get_array()
    assert first is not None
    assert first.shape == (2, 20)
    assert first[0, :2].tolist() == [1.0, 0.0]
    assert len(gan.pictures_summary(frame, problems=PROBLEMS)) == 4
