"""Methods under several values of one setting: a curve for each value, or a panel for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from dplangevin.exhibits.figures import plain
from dplangevin.exhibits.tables import variant_settings


def by_setting(
    runs: pd.DataFrame,
    *,
    method: str,
    setting: str,
    values: Sequence[str],
    scaling: str,
    panels: Mapping[str, str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per data set; in each, `method` at every one of `values` of `setting`, rows scaled by `scaling`.

    The look of a curve is that of "<method>:<value>" in `style.LOOKS`.
    """
    rows = runs[runs.method.eq(method) & runs.scaling.eq(scaling)].copy()
    rows["method"] = [f"{method}:{variant_settings(variant)[setting]}" for variant in rows.variant]
    rows["variant"] = ""
    names = [f"{method}:{value}" for value in values]
    return plain(rows, panels=panels, methods=names, title=title, audited=audited)


def panel_by_setting(
    runs: pd.DataFrame,
    *,
    setting: str,
    methods: Sequence[str],
    panels: Mapping[str, str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per value of `setting` (value -> panel title) with all methods at that value, on one data set."""
    rows = runs.copy()
    rows["dataset"] = [variant_settings(variant)[setting] for variant in rows.variant]
    rows["variant"] = ""
    return plain(rows, panels=panels, methods=methods, title=title, audited=audited)
