"""Markdown tables, and the summaries and pages of the trained networks.

The summaries are also the numbers behind the figures. All functions are pure functions of the frames of
`reporting.read`.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.statistics import finite_interval, matches, seed_summaries, sort_by
from dplangevin.reporting.words import at_least, at_most, look
from dplangevin.text import distinct, epsilon, number, numbers, percent, setting, short

Published = Sequence[Mapping[str, Any]]
Names = Mapping[str, str]  # name in a frame -> name that readers see
Features = Mapping[str, Mapping[str, str]]  # set of features -> {task, network, source}
Cell = Callable[[Any], str]  # a row of a frame -> text


def _empty_if_nan(text: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "" if isinstance(value, float) and math.isnan(value) else text(value)


def method_label(name: str) -> str:
    """Return the label of a method, with what its name says after the first word."""
    method, _, rest = name.partition(" ")
    return f"{look(method).label}, {rest}" if rest else look(method).label


FORMATS: dict[str, Callable[[Any], str]] = {
    "number": number,
    "short": short,
    "percent_0": lambda share: f"{100 * share:.0f}",
    "percent_1": lambda share: f"{100 * share:.1f}",
    "power": lambda value: re.sub(r"e([+-])0*", r"e\1", f"{value:.1e}").replace("e+", "e"),
    "epsilon": epsilon,
    "at_least": at_least,
    "at_most": at_most,
    "method": method_label,
    "span": lambda values: " to ".join(map(number, sorted({values.min(), values.max()}))),
    "features": lambda name: look(name, "features").label,
}


class _Text(string.Formatter):
    """`str.format` that also knows FORMATS, as in {epsilon:number}; a nan is an empty text.

    Of a column it writes the first value that is not nan, or with {seeds:span} the smallest and the largest.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, pd.Series):
            value = value if format_spec == "span" else value.dropna().iloc[0]
        return _empty_if_nan(FORMATS.get(format_spec, lambda value: format(value, format_spec)))(value)


def fill(text: str, of: Any) -> str:
    """Return a text of `conf/exhibit` with its fields filled from a row (Series), or from the columns of a frame."""
    return _Text().vformat(text, (), of)


def table(columns: Sequence[str], rows: Iterable[Iterable[str]], left: int | None = None) -> list[str]:
    """Return the lines of a Markdown table; the first `left` columns are aligned to the left, if it is not None."""
    rule = f"|{'|'.join(['---'] * len(columns))}|"
    if left is not None:
        rule = f"| {' | '.join(['---'] * left + ['---:'] * (len(columns) - left))} |"
    head, *body = (f"| {' | '.join(cells)} |" for cells in [columns, *rows])
    return [head, rule, *body]


def rows_table(rows: pd.DataFrame, columns: Mapping[str, Cell], left: int | None = None) -> list[str]:
    """Return a Markdown table with a line for each row of a frame."""
    lines = [[text(row) for text in columns.values()] for _, row in rows.iterrows()]
    return table([*columns], lines, left)


def cell(column: str, text: Callable[[Any], str] = str) -> Cell:
    """Return the cell that shows a column as `text` writes it."""
    return lambda row: text(row[column])


def page(title: str, lines: Iterable[str], sections: Mapping[str, Iterable[str]] | None = None) -> str:
    """Return a Markdown page: `lines`, then each of `sections` (heading -> lines)."""
    text = [f"# {title}", "", *lines]
    for heading, section in (sections or {}).items():
        text += ["", f"## {heading}", "", *section]
    return "\n".join(text) + "\n"


def table_page(
    frame: pd.DataFrame,
    *,
    notes: str,
    columns: Mapping[str, str],
    left: int = 1,
    where: Mapping[str, Any] | None = None,
    title: str = "",
    **made: Any,
) -> str:
    """Return a page with `notes`, filled from the `prepared` frame, and a line for each row that matches `where`.

    `columns` maps headings to texts, which are filled from a row.
    """
    frame = prepared(frame, **made)
    rows = frame[matches(frame, where or {})]
    return page(title, [fill(notes, frame), "", *rows_table(rows, cells(columns), left)])


def cells(columns: Mapping[str, str]) -> dict[str, Cell]:
    """Return the cells whose texts `fill` fills."""
    return {heading: partial(fill, text) for heading, text in columns.items()}


def prepared(
    frame: pd.DataFrame,
    *,
    numbers: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    assign: Mapping[str, str] | None = None,
    names: Mapping[str, Mapping[Any, str]] | None = None,
) -> pd.DataFrame:
    """Return the rows that `numbers` makes, with new columns by the formulas of `assign` (`DataFrame.eval`).

    `names` maps columns to values to what stands for these.
    """
    frame = numbers(frame) if numbers else frame
    formulas: dict[str, Any] = {name: frame.eval(formula) for name, formula in (assign or {}).items()}
    frame = frame.assign(**formulas)
    return frame.replace({name: dict(texts) for name, texts in (names or {}).items()})


def blocks(table: pd.DataFrame, names: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Return the rows of each block of `names` (block -> heading) that the table has, by heading."""
    rows = {heading: table[table.block.eq(block)] for block, heading in names.items()}
    return {heading: block for heading, block in rows.items() if len(block)}


def hyperparameters(row: pd.Series, names: Mapping[str, str]) -> str:
    """Return the finite hyperparameters of a row as text; `names` maps columns to symbols."""
    return ", ".join(
        f"{name} {setting(row[column])}"
        for column, name in names.items()
        if column in row and np.isfinite(row[column])
    )


def _accuracy(row: pd.Series) -> str:
    return percent(row.accuracy) + ("†" if row.violated else "")


def _interval(row: pd.Series) -> str:
    """Return the 95 % interval of an accuracy in %, or the reason why there is none."""
    if row.seeds < 2:
        return "one seed" if row.seeds else "diverged"
    return f"{percent(row.low)} to {percent(row.high)}"


OURS: dict[str, Cell] = {"ours": _accuracy, "95 % interval": _interval, "seeds": cell("seeds")}


NOT_MET, ASSUMED = "†: not met", "Assumed, in all rows or some"


def _listed(texts: pd.Series, what: str) -> list[str]:
    listed = distinct(texts)
    return [f"{what}: {'; '.join(listed)}."] if listed else []


# Networks trained from scratch: Table 1 of li2019

TRAINING_KEYS = ["dataset", "problem", "block", "run", "method", "epsilon"]
TRAINING_PRICES = ["epsilon_promised", "epsilon_add_remove", "epsilon_replace_one"]
TRAINING_COLUMNS = [
    *TRAINING_KEYS, "label", "accuracy_paper", "epsilon_claimed", "source", "delta", "step_size", "batch", "epochs",
    "clip", "noise_multiplier", "seeds", "accuracy", "sd", "low", "high", "accuracy_single", "log_loss",
    "log_loss_single", "brier", "ece", "ece_single", *TRAINING_PRICES, "answered", "epsilon_data_dependent",
    "accountant_promised", "violated",
]  # fmt: skip
COVERAGE = ["recognised", "digits_covered", "digit_entropy"]  # scores by `digit_classifier.DigitClassifier`
TRAINING_MEANS = ["accuracy_single", "log_loss_single", "brier", "ece", "ece_single"]
TRAINING_SYMBOLS = {
    "step_size": "η", "batch": "batch", "epochs": "epochs", "clip": "clip", "noise_multiplier": "σ",
    "answered": "answered", "epsilon_data_dependent": "ε that depends on the data",
}  # fmt: skip
TRAINING_BLOCKS = {
    "nonprivate": "Without privacy",
    "printed": "The paper's printed settings",
    "equal": "At equal proven ε",
    "readings": "Printed settings, with the mean gradient of a minibatch clipped in place of each record's",
    "reference": "A published number for the small network",
}


def with_problem_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the variant of a problem added to its name, such as "gan labels=public"."""
    variant = frame.variant.str.removeprefix("problem.")
    return frame.assign(problem=(frame.problem + " " + variant).str.strip())


def training_summary(
    frame: pd.DataFrame, *, published: Published = (), names: Names | None = None,
    columns: Sequence[str] = TRAINING_COLUMNS,
) -> pd.DataFrame:  # fmt: skip
    """Return one row for each run and budget of `read.read_seeds`, with published numbers beside ours.

    - `published`: {where, accuracy, epsilon, source}; the last two may be absent, `where` is as in `matches`.
    - `names`: Run -> label. Other runs have the label of their method.
    """
    rows = []
    for row, group in seed_summaries(with_problem_variants(frame), TRAINING_KEYS):
        row["label"] = (names or {}).get(row["run"]) or look(row["method"], "network").label
        row |= {column: group[column].mean() for column in TRAINING_MEANS if column in group}
        row |= {name: group[name].max() for name in ("answered", "epsilon_data_dependent") if name in group}
        for name in (score for score in COVERAGE if score in group):
            score = finite_interval(group[name])
            row |= {name: score.mean, f"{name}_low": score.low, f"{name}_high": score.high}
        rows.append({**group.iloc[0][[c for c in columns if c in group]], **row})
    table = pd.DataFrame(rows).assign(accuracy_paper=math.nan, epsilon_claimed=math.nan, source="")
    for printed in published:
        here = matches(table, printed["where"])
        table.loc[here, "accuracy_paper"] = printed["accuracy"]
        table.loc[here, "epsilon_claimed"] = printed.get("epsilon", math.nan)
        table.loc[here, "source"] = printed.get("source", "")
    table = table[[column for column in columns if column in table]]
    return sort_by(table, block=[*TRAINING_BLOCKS])


def training_page(
    frame: pd.DataFrame,
    *,
    published: Published,
    networks: Names,
    notes: str,
    names: Names | None = None,
    title: str = "",
) -> str:
    """Return a page with a table for each block of `training_summary`; `networks` names the networks."""
    table = training_summary(frame, published=published, names=names)
    table["problem"] = [networks.get(name, name) for name in table.problem]
    sections = {}
    for heading, rows in blocks(table, TRAINING_BLOCKS).items():
        sources = sorted({text for text in rows.source if text})
        lines = [f"Published: {'; '.join(sources)}.", ""] if sources else []
        lines += [*_side_by_side(rows), ""] if rows.block.eq("equal").all() else []
        sections[heading] = [*lines, *rows_table(rows, TRAINING_CELLS, left=3)]
    return page(title, _training_notes(table, notes), sections)


def _training_notes(table: pd.DataFrame, notes: str) -> list[str]:
    private = table[np.isfinite(table.epsilon_add_remove) & table.accountant_promised.ne("")]
    names = private.groupby("method", sort=False).accountant_promised.unique()
    accountants = ", ".join(
        f"{look(str(method), 'network').label}: {'/'.join(sorted(of))}" for method, of in names.items()
    )
    failed = ["†: a condition of the guarantee is not met."] if table.violated.ne("").any() else []
    return [notes.format(accountants=accountants, delta=numbers(private.delta)), *failed]


def _side_by_side(rows: pd.DataFrame) -> list[str]:
    """Return a table with networks and budgets as rows and methods as columns."""
    methods = rows.method.unique()
    order = rows.problem.map({network: i for i, network in enumerate(rows.problem.unique())})
    lines = []
    for _, group in rows.groupby([order, "epsilon"]):
        of = {row.method: _beside(row) for _, row in group[::-1].iterrows()}
        cells = [group.problem.iloc[0], number(float(group.epsilon.iloc[0]))]
        lines.append([*cells, *(of.get(method, "") for method in methods)])
    labels = [look(method, "network").label for method in methods]
    return table(["network", "proven ε at most", *labels], lines, left=1)


def _seeds(row: pd.Series) -> str:
    return f"{row.seeds}" if row.seeds > 1 else "1 seed" if row.seeds else "diverged"


def _beside(row: pd.Series) -> str:
    if not row.seeds:
        return _seeds(row)
    spread = f" ± {percent(row.sd)}" if row.seeds > 1 else f" ({_seeds(row)})"
    paper = "" if math.isnan(row.accuracy_paper) else f" [{percent(row.accuracy_paper)}]"
    return f"{percent(row.accuracy)}{spread}{'†' if row.violated else ''}{paper}"


TRAINING_CELLS: dict[str, Cell] = {
    "network": cell("problem"),
    "method": cell("label"),
    "settings": lambda row: hyperparameters(row, TRAINING_SYMBOLS),
    "published": cell("accuracy_paper", percent),
    "ours": _accuracy,
    "sd": cell("sd", percent),
    "seeds": _seeds,
    "paper's ε": cell("epsilon_claimed", epsilon),
    "formula ε": cell("epsilon_promised", epsilon),
    "proven ε, add/remove": cell("epsilon_add_remove", at_most),
    "proven ε, replace-one": cell("epsilon_replace_one", at_most),
}


# Logistic regression on features: Tables 1 and 2 of ryffel2022

HEAD_KEYS = ["dataset", "block", "run", "method", "schedule", "calibration", "epsilon"]
HEAD_PRICES = {
    "epsilon_claimed": "promised ε",
    "epsilon_formula_epochs": "formula ε, K = epochs",
    "epsilon_formula_steps": "formula ε, K = steps",
    "epsilon_proven": "proven ε, all iterates",
    "epsilon_last": "proven ε, last iterate",
    "epsilon_attack": "attack ε",
    "epsilon_add_remove": "proven ε, add/remove",
}
BOUNDS = {  # how a price is rounded, which is no bound else
    "epsilon_attack": at_least,
    **dict.fromkeys(("epsilon_proven", "epsilon_last", "epsilon_add_remove"), at_most),
}
HEAD_SETTINGS = [
    "delta", "step_size", "l2", "smoothness", "clip", "noise_std", "noise_multiplier", "batch", "epochs", "steps",
    "records", "parameters", "classes",
]  # fmt: skip
SCORES = ["accuracy", "low", "high", "seeds", "log_loss"]
BEST = "accuracy_best_epoch"
HEAD_SYMBOLS = {
    "step_size": "η", "l2": "λ", "clip": "clip", "noise_std": "σ", "noise_multiplier": "σ/clip",
    "batch": "batch", "epochs": "epochs",
}  # fmt: skip
HEAD_BLOCKS = {
    "code": "As the authors ran it",
    "published": "Their noise and clips, the paper's steps",
    "records": "Their noise, attacked among the records",
    "equal": "At ε = 1, proven or by their formula",
    "public": "At ε = 1, step sizes from a public bound",
}
NOISE = {
    "published": "the authors'",
    "formula": "their formula, K = steps, at ε = 1",
    "tight": "proven ε = 1",
    "": "",
}


def heads_summary(frame: pd.DataFrame, *, schedule: str, published: Published = ()) -> pd.DataFrame:
    """Return accuracy, prices and settings of each set of features, <dataset>_<network>, and run with one schedule.

    `published` has {dataset, method, network, accuracy}. A number stands beside the rows of its own features (columns
    paper_<network>), and beside features of networks that the paper does not have.
    """
    runs = frame[frame.schedule.eq(schedule) & frame.block.isin(list(HEAD_BLOCKS))]
    if runs.empty:
        raise ValueError(f"no run with schedule {schedule!r}: the runs have {sorted(set(frame.schedule))}")
    networks = [*dict.fromkeys(f"paper_{printed['network']}" for printed in published)]
    rows = []
    for row, group in seed_summaries(runs, HEAD_KEYS):
        row |= dict.fromkeys(networks, math.nan)
        task, _, network = row["dataset"].partition("_")
        has = network in [printed["network"] for printed in published if printed["dataset"] == task]
        for printed in published:
            mine = printed["network"] == network or not has
            if printed["dataset"] == task and mine and row["method"] == printed["method"]:
                row[f"paper_{printed['network']}"] = printed["accuracy"]
        row["epsilon_claimed"] = row["epsilon"] if row["calibration"] == "published" else math.nan
        rows.append({**group.iloc[0], **row, BEST: _best_epoch(group)})
    columns = [*HEAD_KEYS, *networks, *SCORES, BEST, *HEAD_PRICES, *HEAD_SETTINGS, "violated"]
    table = pd.DataFrame(rows)[columns]
    return sort_by(table, block=[*HEAD_BLOCKS], dataset=[*table.dataset.unique()])


def heads_by_schedule(frame: pd.DataFrame, *, published: Mapping[str, Published]) -> pd.DataFrame:
    """Return `heads_summary` of each schedule of `published`, one below the other."""
    tables = [heads_summary(frame, schedule=of, published=printed) for of, printed in published.items()]
    return pd.concat(tables, ignore_index=True)


def _best_epoch(group: pd.DataFrame) -> float:
    return float(group[BEST].mean()) if BEST in group else math.nan


def of_features(features: Features, name: str) -> Mapping[str, str]:
    """Return task, network and source of a set of features."""
    return features.get(name, {"task": name, "network": name, "source": ""})


def heads_page(
    frame: pd.DataFrame,
    *,
    schedule: str,
    published: Published,
    features: Features,
    introduction: str,
    notes: str,
    title: str = "",
) -> str:
    """Return a page with a table for each block of `heads_summary`; `features` are those of `of_features`."""
    table = heads_summary(frame, schedule=schedule, published=published)
    steps = {"constant": "constant step size", "decreasing": "decreasing step size"}[schedule]
    confidence = "/".join(f"{100 * value:g} %" for value in sorted(frame.attack_confidence.dropna().unique()))
    lines = [introduction.format(schedule=steps), ""]
    for name in table.dataset.unique():
        of = of_features(features, name)
        lines.append(f"- {of['task']}: {of['network']}. {of['source']}".rstrip())
        here = frame.dataset.eq(name) & frame.schedule.eq(schedule)
        lines += _listed(frame.assumptions[here], f"  {ASSUMED}")
    lines += ["", notes.format(confidence=confidence or "95 %"), *_listed(table.violated, NOT_MET)]
    sections = {name: _heads_block(rows, features) for name, rows in blocks(table, HEAD_BLOCKS).items()}
    return page(title, lines, sections)


def _heads_block(rows: pd.DataFrame, features: Features) -> list[str]:
    columns: dict[str, Cell] = {
        "task": lambda row: of_features(features, row.dataset)["task"],
        "network": lambda row: of_features(features, row.dataset)["network"],
        "method": cell("method", _features_method),
        "noise": cell("calibration", NOISE.__getitem__),
        "settings": lambda row: hyperparameters(row, HEAD_SYMBOLS),
        **_accuracies_and_prices(rows, HEAD_PRICES),
    }
    return rows_table(rows, columns, left=5)


def _features_method(method: str) -> str:
    return look(method, "features").label


def _accuracies_and_prices(rows: pd.DataFrame, prices: Names) -> dict[str, Cell]:
    """Return the columns of accuracies, δ and prices; the latter are empty for a run without privacy."""

    def private(column: str, text: Callable[[float], str]) -> Cell:
        return lambda row: "" if row.method == "sgd" else text(row[column])

    others = {"paper_resnet18": "paper, ResNet-18", "paper_alexnet": "paper, AlexNet", BEST: "best epoch"}
    known = [column for column in others if column in rows and rows[column].notna().any()]
    columns = {others[column]: cell(column, percent) for column in known} | OURS
    columns["δ"] = private("delta", number)
    return columns | {name: private(column, BOUNDS.get(column, epsilon)) for column, name in prices.items()}


# The last block is trained too: Table 3 of ryffel2022

FINETUNE_PRICES = {
    "epsilon_promised": "promised ε",
    "epsilon_proven": "proven ε, replace-one",
    "epsilon_add_remove": "proven ε, add/remove",
}
FINETUNE_SETTINGS = [
    "delta", "step_size", "clip", "noise_multiplier", "batch", "epochs", "steps", "parameters",
]  # fmt: skip
TRAINED_PARTS = {
    "head_resnet18": "The head alone",
    "fourth_stage": "Fourth stage and head",
    "head": "The head alone",
    "block": "Last block and head",
}


def finetune_summary(frame: pd.DataFrame, *, published: Published = ()) -> pd.DataFrame:
    """Return one row for each run of `read.read_seeds`; `published` has printed accuracies {run, accuracy}."""
    printed = {entry["run"]: entry["accuracy"] for entry in published}
    rows = []
    for row, group in seed_summaries(frame, ["run", "problem", "method"]):
        paper = printed.get(row["run"], math.nan)
        rows.append({**group.iloc[0], **row, "paper_resnet18": paper, BEST: _best_epoch(group)})
    scores = ["paper_resnet18", *SCORES, BEST]
    columns = ["run", "problem", "method", *scores, *FINETUNE_PRICES, *FINETUNE_SETTINGS, "violated"]
    return sort_by(pd.DataFrame(rows)[columns], problem=[*TRAINED_PARTS])


def finetune_page(
    frame: pd.DataFrame, *, published: Published, networks: Names, notes: str, title: str = ""
) -> str:
    """Return a Markdown page with one table; `networks` has the name of the network of each problem."""
    summary = finetune_summary(frame, published=published)
    lines = [notes, *_listed(frame.assumptions, ASSUMED), *_listed(summary.violated, NOT_MET), ""]
    columns: dict[str, Cell] = {
        "trained": cell("problem", TRAINED_PARTS.__getitem__),
        "network": cell("problem", networks.__getitem__),
        "method": cell("method", _features_method),
        "settings": lambda row: hyperparameters(row, HEAD_SYMBOLS),
        "parameters": cell("parameters", "{:.0f}".format),
        **_accuracies_and_prices(summary, FINETUNE_PRICES),
    }
    return page(title, [*lines, *rows_table(summary, columns, left=4)])
