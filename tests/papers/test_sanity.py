"""Committed results against an independent prototype of the same choices: its mean accuracy of ten repeats.

The prototype's numbers have a Monte Carlo error of their own, of the size of ours.
"""

import math

import numpy as np
import pytest

from dplangevin.reporting.read import RUNS, read_runs

ROUNDING = 0.0005
CASES = [  # experiment/dataset/run, variant, accuracies by epsilon
    ("wang2015/adult/nonprivate", "", {math.inf: 0.852}),
    ("wang2015/adult/ops", "", {0.1: 0.784, 1.0: 0.833, 10.0: 0.846}),
    ("wang2015_sensitivity/adult/ops", "bound=range;radius=10.0", {0.1: 0.804, 1.0: 0.840, 10.0: 0.848}),
    (
        "wang2015_sensitivity/adult/objpert",
        "adjacency=add_remove;ridge=0.01",
        {0.1: 0.795, 1.0: 0.845, 10.0: 0.852},
    ),
    ("wang2015/adult/outpert", "", {0.1: 0.820, 1.0: 0.823, 10.0: 0.822}),
    ("wang2015/abalone/nonprivate", "", {math.inf: 0.783}),
    ("wang2015/abalone/ops", "", {1.0: 0.766}),
    ("wang2015_sensitivity/abalone/ops", "bound=range;radius=10.0", {1.0: 0.774}),
    ("wang2015_sensitivity/abalone/objpert", "adjacency=add_remove;ridge=0.01", {1.0: 0.774}),
    ("wang2015/abalone/outpert", "", {1.0: 0.744}),
]


def agrees(values: np.ndarray, expected: float) -> bool:
    """Within two standard errors of the difference of the means, of which we know one spread."""
    error = float(values.std(ddof=1)) * math.sqrt(1 / len(values) + 1 / 10)
    return abs(values.mean() - expected) <= 2 * error + ROUNDING


@pytest.mark.parametrize(("name", "variant", "expected"), CASES)
def test_committed_accuracies(name: str, variant: str, expected: dict[float, float]) -> None:
    folder, _, run = name.rpartition("/")
    if not (RUNS / folder).exists():
        pytest.skip(f"{folder} has not been made: make repro")
    frame = read_runs([folder], [run])
    frame = frame[frame.metric.eq("accuracy") & frame.variant.eq(variant) & frame.scaling.eq("unit")]
    for epsilon, accuracy in expected.items():
        values = frame[frame.epsilon.eq(epsilon)].value.to_numpy(float)
        assert len(values) == (10 if folder == "wang2015_sensitivity/adult" else 40)
        assert agrees(values, accuracy), f"{name} at {epsilon}: {values.mean():.4f}, not {accuracy}"
