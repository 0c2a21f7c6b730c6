"""Charts of the report: Vega-Lite specifications from tidy frames, with the looks of `papers.exhibits.style`.

Every chart is one view that is as wide as its container. Epsilon is on a log axis, and the axis shows epsilon
itself. Colours are CSS variables (`paint`), so that a page can replace them on a dark ground or on paper.
`palette` has their values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from dplangevin.papers.exhibits import privacy
from dplangevin.papers.exhibits.style import FALLBACK_COLOURS, LOOKS, PRICE_COLOURS, Look, look
from dplangevin.text import number, short

DARK_GROUND = "#16181d"
CONTRAST = 3.0  # smallest contrast of a mark with its ground, by WCAG 1.4.11
STAR = "M0,-1L.24,-.33L.95,-.31L.38,.13L.59,.81L0,.4L-.59,.81L-.38,.13L-.95,-.31L-.24,-.33Z"
HEXAGON = "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z"
PENTAGON = "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z"
SHAPES = {  # marker of matplotlib -> shape of Vega
    "o": "circle", "": "circle", "s": "square", "D": "diamond", "d": "diamond", "P": "cross", "X": "cross",
    "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "*": STAR, "h": HEXAGON, "p": PENTAGON, "|": "M0,-1.3L0,1.3",
}  # fmt: skip
DASHES = {"-": [1, 0], "--": [6, 3], "-.": [6, 2, 1, 2], ":": [2, 2], "": [1, 0]}
REFERENCES = ("nonprivate", "sgld", "sgd", "majority")
"""Methods without a budget: drawn as horizontal lines."""


# Colours


def paint(colour: str) -> str:
    """Return a colour as a CSS variable that a page can replace; its default is the colour itself."""
    return f"var(--c{colour.lstrip('#').lower()}, {colour})"


def _luminance(colour: str) -> float:
    """Return the relative luminance of a colour, in [0, 1], as WCAG 2 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, in [1, 21], as WCAG 2 defines it."""
    low, high = sorted([_luminance(one), _luminance(other)])
    return (high + 0.05) / (low + 0.05)


def on_dark(colour: str) -> str:
    """Return the colour mixed with just enough white for a contrast of 3 with the dark ground."""
    for white in np.linspace(0, 1, 21):
        red, green, blue = ((1 - white) * part + white for part in to_rgb(colour))
        mixed = to_hex((red, green, blue))
        if contrast(mixed, DARK_GROUND) >= CONTRAST:
            return mixed
    return "#ffffff"


def palette() -> dict[str, tuple[str, str]]:
    """Return the value of every colour of a chart on a white ground and on a dark ground."""
    looks = [*LOOKS.values(), *privacy.STEP_CURVES.values(), *privacy.PAIR.values()]
    extra = [privacy.EPOCHS.colour, privacy.PUBLISHED.colour]
    colours = sorted({*(of.colour for of in looks), *FALLBACK_COLOURS, *PRICE_COLOURS.values(), *extra})
    return {colour: (colour, "#f2f2f2" if colour == "#000000" else on_dark(colour)) for colour in colours}


# Shared by all charts


def specification(chart: Any, height: int = 320) -> dict[str, Any]:
    """Return the chart as a dictionary that is the same in every run, with the width of its container."""
    with alt.data_transformers.enable("default", max_rows=None):
        made: dict[str, Any] = chart.properties(width="container", height=height, autosize=_FIT).to_dict(
            validate=False
        )  # Altair does not validate: that takes half of the time, and the tests draw every chart
    made.pop("$schema", None)
    for key in ("view", "config"):
        made.pop(key, None)
    return made


_FIT = alt.AutoSizeParams(type="fit-x", contains="padding")


def text(spec: Mapping[str, Any]) -> str:
    """Return a specification as JSON for a script element of a page.

    Numbers that are not finite become null, because an axis cannot show them.
    """
    found = json.dumps(
        _drawn(spec), ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )
    return found.replace("</", "<\\/")


def _drawn(value: Any) -> Any:
    """Return the value with null for every number in it that is not finite."""
    if isinstance(value, Mapping):
        return {key: _drawn(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_drawn(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _log(title: str, domain: Sequence[float] | None = None, **other: Any) -> dict[str, Any]:
    """Return the settings of a log axis."""
    limits: dict[str, Any] = {"domain": list(domain), "clamp": True} if domain else {}
    scale = alt.Scale(type="log", **limits)
    return {
        "scale": scale,
        "axis": alt.Axis(
            title=title, labelExpr=_TICKS, labelOverlap=True, gridColor=_LABELLED, tickColor=_LABELLED
        ),
        **other,
    }


_LABELLED: Any = {"condition": {"test": "datum.label == ''", "value": "transparent"}, "value": "var(--line)"}
_TICKS = (  # short numbers without the SI prefix that Vega would write
    "datum.label == '' ? '' : datum.value >= 1e5 || datum.value < 1e-3 ? "
    "replace(format(datum.value, '.0e'), '+', '') : format(datum.value, '~r')"
)


def _scales(looks: Mapping[str, Look]) -> dict[str, alt.Scale]:
    """Return the scales of colour, shape and dash that give every name its Look."""
    names = [of.label for of in looks.values()]
    ranges = {
        "color": [paint(of.colour) for of in looks.values()],
        "shape": [_known(SHAPES, of.marker, "circle") for of in looks.values()],
        "dash": [_known(DASHES, of.line, DASHES["--"]) for of in looks.values()],
    }
    return {name: alt.Scale(domain=names, range=values) for name, values in ranges.items()}


def _known(table: Mapping[str, Any], key: Any, other: Any) -> Any:
    """Return the entry of the table, or `other` if there is none; keys of matplotlib may be tuples."""
    return table.get(key, other) if isinstance(key, str) else other


LEGEND = alt.Legend(title=None, orient="bottom", symbolStrokeWidth=2, symbolSize=70)


def _records(frame: pd.DataFrame, digits: int = 5) -> pd.DataFrame:
    """Return the frame with numbers rounded to a few digits, because the page contains the data."""
    rounded = frame.copy()
    for column in rounded.select_dtypes("number"):
        rounded[column] = [
            float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in rounded[column]
        ]
        rounded[column] = rounded[column].astype(object).where(rounded[column].notna(), None)
    return rounded


# Accuracy against epsilon


def over_epsilon(
    table: pd.DataFrame, *, proven: bool = False, ln: bool = False, y: str = "test accuracy"
) -> dict[str, Any]:
    """Return a chart of the mean of a score against epsilon, with one line for each method.

    Vertical bars are 95 % intervals. Methods without a budget are horizontal lines. A mark is hollow if a
    condition of the guarantee fails or a chain has diverged.

    Parameters
    ----------
    table : DataFrame
        Rows of `papers.statistics.summary` for one data set.
    proven : bool
        Whether x is the proven ε instead of the ε asked for.
    ln : bool
        Whether a second axis at the top shows ln epsilon, as the paper does.
    y : str
        Title of the y axis.
    """
    x = "epsilon_proven" if proven else "epsilon"
    table = table.assign(label=[look(method).label for method in table.method], eps=table[x])
    private = table[table.eps.gt(0) & np.isfinite(table.eps) & table["mean"].notna()]
    flat = table[table.method.isin(REFERENCES) & table["mean"].notna()]
    flat = flat[~np.isfinite(flat.epsilon)].drop_duplicates("method")
    methods = [*dict.fromkeys([*private.method, *flat.method])]
    scales = _scales({method: look(method) for method in methods})
    state = np.where(private.violated.ne("") | private.diverged.gt(0), "hollow", "full")
    columns = ["label", "eps", "mean", "low", "high", "state"]
    data = _records(private.assign(state=state)[columns])
    name = "tight ε" if proven else "ε asked for"
    low, high = _decades(private.eps)
    at = alt.X("eps:Q", **_log(name, (low, high)))
    value = alt.Y("mean:Q", title=y, scale=alt.Scale(zero=False, nice=True))
    colour = alt.Color("label:N", scale=scales["color"], legend=LEGEND)
    tips = [
        alt.Tooltip("label:N", title="method"),
        alt.Tooltip("eps:Q", title="ε", format=".3~g"),
        alt.Tooltip("mean:Q", title=y, format=".4~f"),
        alt.Tooltip("low:Q", title="95 % from", format=".4~f"),
        alt.Tooltip("high:Q", title="to", format=".4~f"),
    ]
    chosen = alt.selection_point(fields=["label"], bind="legend", name="chosen")
    base = alt.Chart(data).encode(
        x=at, color=colour, tooltip=tips, opacity=alt.condition(chosen, alt.value(1), alt.value(0.12))
    )
    layers: list[Any] = []
    if len(flat):
        level = alt.Chart(_records(flat[["label", "mean"]])).mark_rule(strokeWidth=1.4)
        layers.append(
            level.encode(
                y=value,
                color=colour,
                strokeDash=alt.StrokeDash("label:N", scale=scales["dash"], legend=LEGEND),
                tooltip=[tips[0], tips[2]],
            )
        )
    layers += [
        base.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q", title=y), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(
            y=value, strokeDash=alt.StrokeDash("label:N", scale=scales["dash"], legend=LEGEND)
        ),
        base.mark_point(size=55, strokeWidth=1.6)
        .add_params(chosen)
        .encode(
            y=value,
            shape=alt.Shape("label:N", scale=scales["shape"], legend=LEGEND),
            fill=alt.condition("datum.state == 'hollow'", alt.value("var(--ground, white)"), colour),
        ),
    ]
    if ln:
        ticks = [math.exp(k) for k in range(-7, 6) if low <= math.exp(k) <= high]
        top = alt.Axis(
            orient="top",
            title="ln ε, the paper's axis",
            values=ticks,
            labelExpr="format(log(datum.value), '.0f')",
            grid=False,
        )
        pale = alt.Chart(data).mark_point(opacity=0, size=0)
        second = pale.encode(x=alt.X("eps:Q", scale=alt.Scale(type="log", domain=[low, high]), axis=top))
        return specification(alt.layer(alt.layer(*layers), second).resolve_axis(x="independent"), 340)
    return specification(alt.layer(*layers), 340)


def _decades(values: pd.Series) -> tuple[float, float]:
    """Return the range of the values for a log axis, with a little room on both sides."""
    return float(values.min()) / 1.25, float(values.max()) * 1.25


# Promised, proven and attack ε of printed guarantees


def promises(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a chart with one row for each printed guarantee that can be priced.

    The frame has rows of the analysis `privacy_claims`. A chart row shows the promised ε, the ε of the
    paper's formula, and the proven ε for both neighbour relations. A bar ends at the attack ε.
    """
    low, high = privacy.SMALLEST, privacy.LARGEST
    rows = frame[np.isfinite(frame.epsilon_claimed) & frame.mechanism.notna()]
    kinds = privacy.PRICES
    scales = _scales({**kinds, "attack": privacy.ATTACK._replace(marker="s")})
    long = rows.melt(["label", "where"], value_vars=[*kinds], var_name="kind", value_name="epsilon").dropna()
    long = long.assign(kind=[kinds[kind].label for kind in long.kind], at=long.epsilon.clip(low, high))
    long["state"] = np.where(long["at"].eq(long.epsilon), "full", "hollow")
    order = [*dict.fromkeys(rows.label)]
    label = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False))
    at = alt.X("at:Q", **_log("ε at the δ of the promise", (low, high)))
    tips = [
        alt.Tooltip("label:N", title="promise"),
        alt.Tooltip("where:N", title="in the paper"),
        alt.Tooltip("kind:N", title="ε"),
        alt.Tooltip("epsilon:Q", title="value", format=".3~g"),
    ]
    colour = alt.Color("kind:N", scale=scales["color"], legend=LEGEND)
    bars = rows[rows.epsilon_attack.gt(low)].rename(columns={"epsilon_attack": "epsilon"})
    bars = bars.assign(kind=privacy.ATTACK.label, at=bars.epsilon.clip(low, high), start=low)
    attack = alt.Chart(_records(bars[["label", "where", "kind", "epsilon", "at", "start"]])).mark_bar(
        size=9, opacity=0.8
    )
    attack = attack.encode(
        x=alt.X("start:Q", **_log("ε at the δ of the promise", (low, high))),
        x2="at:Q",
        y=label,
        color=colour,
        tooltip=tips,
    )
    shape = alt.Shape("kind:N", scale=scales["shape"], legend=LEGEND)
    points = (
        alt.Chart(_records(long))
        .mark_point(size=75, strokeWidth=2, opacity=1)
        .encode(
            x=at,
            y=label,
            color=colour,
            shape=shape,
            tooltip=tips,
            fill=alt.condition("datum.state == 'hollow'", alt.value("var(--ground, white)"), colour),
        )
    )
    return specification(alt.layer(attack, points), 21 * len(order))


# ε of the last iterate against the number of steps


def over_steps(frame: pd.DataFrame, *, setting: str, batch: int) -> dict[str, Any]:
    """Return a chart of epsilon against the number of steps for one setting.

    It shows what Theorem 3.1 claims, what can be proven and what an attack shows. The frame has rows of the
    analysis `ryffel2022_privacy`, selected by the columns setting and batch.
    """
    rows = frame[frame.setting.eq(setting) & frame.batch.eq(batch)]
    curves = rows[rows.kind.eq("curve") & rows.epsilon.gt(privacy.LOW)]
    known = {name: of for name, of in privacy.STEP_CURVES.items() if curves.quantity.eq(name).any()}
    scales = _scales(known)
    data = curves[curves.quantity.isin([*known])]
    data = data.assign(curve=[known[name].label for name in data.quantity])
    data = _records(data[data.epsilon.le(privacy.HIGH)][["curve", "steps", "epsilon"]])
    at = alt.X("steps:Q", **_log("steps K"))
    value = alt.Y("epsilon:Q", **_log(f"ε at δ = {number(rows.delta.iloc[0])}", (privacy.LOW, privacy.HIGH)))
    colour = alt.Color("curve:N", scale=scales["color"], legend=LEGEND)
    tips = [
        alt.Tooltip("curve:N", title="what"),
        alt.Tooltip("steps:Q", title="steps", format=","),
        alt.Tooltip("epsilon:Q", title="ε", format=".3~g"),
    ]
    base = alt.Chart(data).encode(x=at, y=value, color=colour, tooltip=tips)
    attack = json.dumps(privacy.STEP_CURVES["audit"].label)
    line = base.transform_filter(f"datum.curve != {attack}").mark_line(strokeWidth=2)
    line = line.encode(strokeDash=alt.StrokeDash("curve:N", scale=scales["dash"], legend=LEGEND))
    points = base.mark_point(filled=True).encode(
        size=alt.condition(f"datum.curve == {attack}", alt.value(70), alt.value(14)),
        shape=alt.Shape("curve:N", scale=scales["shape"], legend=LEGEND),
    )
    one = alt.Chart(pd.DataFrame([{"epsilon": 1.0, "label": "ε = 1.0, as printed"}])).mark_rule(
        strokeDash=[2, 2]
    )
    level = one.encode(y=value, tooltip=["label:N"], color=alt.value(paint(privacy.PUBLISHED.colour)))
    return specification(alt.layer(level, line, points), 340)


# The pair of data sets on which the theorem fails


def counterexample(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a chart of epsilon against delta for the pair of data sets on which the theorem fails.

    It shows the claimed epsilon, the exact one and that of an attack. The frame has rows of the analysis
    `ryffel2022_counterexample`.
    """
    rows = frame[frame.kind.eq("profile") & frame.value.gt(0)]
    known = {name: of for name, of in privacy.PAIR.items() if rows.quantity.eq(name).any()}
    scales = _scales(known)
    data = _records(rows.assign(curve=[known[name].label for name in rows.quantity])[["curve", "x", "value"]])
    tips = [
        alt.Tooltip("curve:N", title="what"),
        alt.Tooltip("x:Q", title="δ", format=".0e"),
        alt.Tooltip("value:Q", title="ε", format=".3~g"),
    ]
    base = alt.Chart(data).encode(
        x=alt.X("x:Q", **_log("δ")),
        y=alt.Y("value:Q", **_log("ε")),
        color=alt.Color("curve:N", scale=scales["color"], legend=LEGEND),
        tooltip=tips,
    )
    line = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash("curve:N", scale=scales["dash"], legend=LEGEND)
    )
    points = base.mark_point(filled=True, size=60).encode(
        shape=alt.Shape("curve:N", scale=scales["shape"], legend=LEGEND)
    )
    return specification(alt.layer(line, points), 320)


# Claims as intervals


def intervals(
    rows: pd.DataFrame, *, title: str, asked: float | None = None, log: bool = False
) -> dict[str, Any]:
    """Return a chart of claims as intervals, one below the other.

    Parameters
    ----------
    rows : DataFrame
        Columns name, ours, low and high.
    title : str
        Title of the x axis.
    asked : float, optional
        The number of the paper, drawn as a line.
    log : bool
        Whether the x axis is logarithmic.
    """
    ends = {end: rows[end].fillna(rows.ours) for end in ("low", "high")}  # one seed has no interval
    data = _records(rows.assign(**ends)[["name", "ours", "low", "high"]])
    label = alt.Y("name:N", sort=[*rows.name], title=None, axis=alt.Axis(ticks=False, domain=False))
    scale = _log(title) if log else {"axis": alt.Axis(title=title), "scale": alt.Scale(zero=False)}
    colour = alt.value(paint(PRICE_COLOURS["replace_one"]))
    tips = [alt.Tooltip(key, format=".3~g") for key in ("ours:Q", "low:Q", "high:Q")]
    base = alt.Chart(data).encode(y=label, tooltip=["name:N", *tips], color=colour)
    layers: list[Any] = [
        base.mark_rule(strokeWidth=4, opacity=0.55).encode(x=alt.X("low:Q", **scale), x2="high:Q"),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=alt.X("ours:Q", **scale)),
    ]
    if asked is not None:
        rule = alt.Chart(pd.DataFrame([{"at": asked, "says": f"the paper: {short(asked)}"}])).mark_rule(
            strokeWidth=2
        )
        layers.insert(
            0, rule.encode(x=alt.X("at:Q", **scale), color=alt.value("var(--ink)"), tooltip=["says:N"])
        )
    return specification(alt.layer(*layers), 46 * len(rows) + 10)
