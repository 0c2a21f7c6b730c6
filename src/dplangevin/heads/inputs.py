"""Features as the methods of an experiment see them: bounded rows, and what is known of them."""

import math
from collections.abc import Mapping
from typing import Any

from dplangevin.data import Dataset
from dplangevin.heads import Audits, Setting
from dplangevin.heads.softmax import problem_of, spread


def setting_of(features: Dataset, spec: Mapping[str, Any]) -> Setting:
    """Of features that are clipped.  spec["smoothness"]: "private", from the rows, or "public", from their bound."""
    if spec["smoothness"] not in ("private", "public"):
        raise ValueError(f"smoothness = {spec['smoothness']!r} must be private or public")
    public = spec["smoothness"] == "public"
    bound = features.meta["row_bound"]
    if public and not bound < math.inf:
        raise ValueError("smoothness = public needs rows with a public bound: set row_norm")
    arrays = features.arrays()
    problem = problem_of(arrays.x_train, arrays.y_train, features.classes, 1, bound)
    return Setting(
        records=problem.n,
        features=problem.features,
        classes=problem.classes,
        row_bound=problem.row_bound,
        spread=bound**2 if public else spread(problem),
        delta=float(spec["delta"]),
        audits=Audits(**spec["audits"]),
        public=public,
    )


def features_notes(features: Dataset, spec: Mapping[str, Any]) -> list[str]:
    """Where the bound on the rows comes from."""
    public, given = features.meta["public"], spec["row_norm"]
    if given is None:
        return ["rows as they are"]
    source = f"norm {given}, chosen without accounting"
    if given in public:
        source = f"{given} = {public[given]:.4g} of the features of {public['images']} public images"
        source += f" ({public['set']})"
    return [f"rows cut to {source}, and scaled to {features.meta['row_bound']:.4g}"]
