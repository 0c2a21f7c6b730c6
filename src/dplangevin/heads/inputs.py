"""Features as the methods of an experiment see them: bounded rows, and what is known of them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dplangevin.features import FeatureSet
from dplangevin.heads import Audits, Setting
from dplangevin.heads.softmax import bounded_rows, problem_of, spread


def scaled(features: FeatureSet, spec: Mapping[str, Any]) -> FeatureSet:
    """Rows cut to `row_norm` (a number, a name in `meta["public"]`, null for none) and scaled to `row_bound`.

    row_bound null is no scaling.  The bound in force becomes `meta["row_bound"]`.
    """
    given, bound = spec["row_norm"], spec["row_bound"]
    norm = math.inf if given is None else float(features.meta["public"].get(given, given))
    bound = norm if bound is None else float(bound)
    x_train, x_test = (bounded_rows(x, norm, bound) for x in (features.x_train, features.x_test))
    return replace(features, x_train=x_train, x_test=x_test, meta={**features.meta, "row_bound": bound})


def setting_of(features: FeatureSet, spec: Mapping[str, Any]) -> Setting:
    """Of features that are scaled.  spec["smoothness"]: "private", from the rows, or "public", from their bound."""
    if spec["smoothness"] not in ("private", "public"):
        raise ValueError(f"smoothness = {spec['smoothness']!r} must be private or public")
    public = spec["smoothness"] == "public"
    bound = features.meta["row_bound"]
    if public and not bound < math.inf:
        raise ValueError("smoothness = public needs rows with a public bound: set row_norm")
    problem = problem_of(features.x_train, features.y_train, features.classes, 1, features.meta["row_bound"])
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


def features_notes(features: FeatureSet, spec: Mapping[str, Any]) -> list[str]:
    """Where the bound on the rows comes from."""
    public, given = features.meta["public"], spec["row_norm"]
    if given is None:
        return ["rows as they are"]
    source = f"norm {given}, chosen without accounting"
    if given in public:
        source = f"{given} = {public[given]:.4g} of the features of {public['images']} public images"
        source += f" ({public['set']})"
    return [f"rows cut to {source}, and scaled to {features.meta['row_bound']:.4g}"]
