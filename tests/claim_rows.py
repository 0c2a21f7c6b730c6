"""Made-up runs for the tests of claims."""

from typing import Any

import numpy as np
import pandas as pd

EPSILONS = [0.1, 1.0, 10.0]
WIGGLE = np.array([-0.01, 0.0, 0.01, 0.005, -0.005])


def rows(method: str, means: list[float], **other: Any) -> pd.DataFrame:
    """Accuracy rows of one method at EPSILONS: five repeats, with ups and downs shared between methods."""
    own = np.roll(WIGGLE, len(method)) * 0.1
    fixed = dict.fromkeys(["variant", "violated"], "") | {"experiment": "wang2015", "dataset": "adult"}
    fixed |= {"method": method, "scaling": "unit", "adjacency": "replace_one", "metric": "accuracy"}
    return pd.DataFrame(
        [
            {
                **fixed,
                "delta": 1e-5,
                "epsilon": e,
                "epsilon_paper": e,
                "epsilon_tight": e / 2,
                "repeat": r,
                **other,
            }
            | {"value": mean + WIGGLE[r] + own[r]}
            for e, mean in zip(EPSILONS, means, strict=True)
            for r in range(5)
        ]
    )


def fact(metric: str, value: float) -> pd.DataFrame:
    return pd.DataFrame([{"experiment": "data", "dataset": "adult", "metric": metric, "value": value}])
