"""Helpers for all Markdown tables, and the summaries and pages of the trained networks.

The summaries are also the numbers behind the figures. All functions are pure functions of the frames of
`papers.exhibits.read`. They return a frame or text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.claims.ryffel2022 import growth_ratios
from dplangevin.papers.exhibits.style import look
from dplangevin.papers.statistics import matches, seed_summaries, sort_by
from dplangevin.text import distinct, epsilon, number, numbers, percent, setting

Published = Sequence[Mapping[str, Any]]


def table(columns: Sequence[str], rows: Iterable[Iterable[str]], left: int | None = None) -> list[str]:
    """Return the lines of a Markdown table.

    Parameters
    ----------
    columns : Sequence of str
        Names of the columns.
    rows : Iterable of Iterable of str
        Cells.
    left : int, optional
        Number of first columns that are aligned to the left; the others are aligned to the right. None sets
        no alignment.
    """
    if left is None:
        rule = f"|{'|'.join(['---'] * len(columns))}|"
    else:
        rule = _line(["---"] * left + ["---:"] * (len(columns) - left))
    return [_line(columns), rule, *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page(title: str, lines: Iterable[str]) -> str:
    """Return a Markdown page."""
    return "\n".join([f"# {title}", "", *lines]) + "\n"


def hyperparameters(row: pd.Series, names: Mapping[str, str]) -> str:
    """Return the hyperparameters of a row as short text; those that its method lacks are left out.

    Parameters
    ----------
    row : Series
        Row of a summary.
    names : Mapping of str to str
        Column -> symbol.
    """
    return ", ".join(
        f"{name} {setting(row[column])}"
        for column, name in names.items()
        if column in row and np.isfinite(row[column])
    )


def _accuracy(row: pd.Series) -> str:
    """Return the accuracy of a row in %, with † if a condition of the guarantee fails."""
    return percent(row.accuracy) + ("†" if row.violated else "")


def _interval(row: pd.Series) -> str:
    """Return the 95 % interval of an accuracy in %, or the reason why there is none."""
    if row.seeds < 2:
        return "one seed" if row.seeds else "diverged"
    return f"{percent(row.low)} to {percent(row.high)}"


def _failed(table: pd.DataFrame) -> list[str]:
    """Return a line that explains † with the conditions that fail, or no line if all hold."""
    texts = distinct(table.violated)
    return [f"†: not met: {'; '.join(texts)}."] if texts else []


def _assumed(texts: pd.Series, indent: str = "") -> list[str]:
    """Return a line with the assumptions, or no line if there are none."""
    listed = distinct(texts)
    return [f"{indent}Assumed, in all rows or some: {'; '.join(listed)}."] if listed else []


# Networks trained from scratch: Table 1 of li2019

TRAINING_KEYS = ["dataset", "problem", "block", "run", "method", "epsilon"]
TRAINING_PRICES = ["epsilon_promised", "epsilon_add_remove", "epsilon_replace_one"]
TRAINING_COLUMNS = [
    *TRAINING_KEYS, "label", "accuracy_paper", "epsilon_claimed", "source", "delta", "step_size", "batch", "epochs",
    "clip", "noise_multiplier", "seeds", "accuracy", "sd", "low", "high", "accuracy_single", "log_loss",
    "log_loss_single", "brier", "ece", "ece_single", *TRAINING_PRICES, "answered", "epsilon_data_dependent",
    "accountant_promised", "violated",
]  # fmt: skip
TRAINING_MEANS = ["accuracy_single", "log_loss_single", "brier", "ece", "ece_single"]
TRAINING_SYMBOLS = {
    "step_size": "η", "batch": "batch", "epochs": "epochs", "clip": "clip", "noise_multiplier": "σ",
    "answered": "answered", "epsilon_data_dependent": "ε that depends on the data",
}  # fmt: skip
TRAINING_BLOCKS = {
    "nonprivate": "Without privacy",
    "printed": "The paper's printed settings",
    "equal": "At equal tight ε",
    "readings": "Printed settings, with the mean gradient of a minibatch clipped in place of each record's",
    "reference": "A published number for the small network",
}
TRAINING_NOTES = """\
Accuracy on the test set in %, the mean over seeds and their standard deviation; with one seed there is no standard
deviation. Samplers predict with the average of their posterior samples. The paper's ε is the one it prints; formula:
that of the paper's accountant, or of the method's own where that has no price; tight: the smallest ε that we can prove,
for the two kinds of neighbours; all at δ = {delta}. Equal tight ε: the noise is chosen so that the tight price under
add/remove is at most the ε of the row. η: step size, σ: noise multiplier. PATE learns from the even test images and is
scored on the odd ones. Published numbers are of the network of PATE's public code, which was not trained here.
Formula: {accountants}."""
TRAINING_VIOLATED = "†: a condition of the guarantee is not met."


def training_summary(
    frame: pd.DataFrame, *, published: Published = (), names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return one row for each run and budget, with settings, accuracy, published accuracy and prices.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`.
    published : Sequence of Mapping
        Printed numbers {where, accuracy, epsilon, source}; `epsilon` and `source` may be absent. `where`
        (column -> value or list of values) selects the rows beside which a number stands.
    names : Mapping of str to str, optional
        Run -> label. Other runs have the label of their method.

    Returns
    -------
    DataFrame
        Columns TRAINING_COLUMNS, as far as the frame has them. accuracy: our mean over seeds, with sd and 95
        % interval (low, high), which are nan for one seed. accuracy_paper: published accuracy.
    """
    rows = []
    for row, group in seed_summaries(frame, TRAINING_KEYS):
        row["label"] = (names or {}).get(row["run"]) or look(row["method"], "network").label
        row |= {column: group[column].mean() for column in TRAINING_MEANS if column in group}
        row |= {name: group[name].max() for name in ("answered", "epsilon_data_dependent") if name in group}
        rows.append({**group.iloc[0][[c for c in TRAINING_COLUMNS if c in group]], **row})
    table = pd.DataFrame(rows).assign(accuracy_paper=math.nan, epsilon_claimed=math.nan, source="")
    for printed in published:
        here = matches(table, printed["where"])
        table.loc[here, "accuracy_paper"] = printed["accuracy"]
        table.loc[here, "epsilon_claimed"] = printed.get("epsilon", math.nan)
        table.loc[here, "source"] = printed.get("source", "")
    table = table[[column for column in TRAINING_COLUMNS if column in table]]
    return sort_by(table, block=[*TRAINING_BLOCKS])


def training_page(
    frame: pd.DataFrame,
    *,
    published: Published,
    networks: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """Return a Markdown page with a table for each block of runs.

    The block of equal proven ε begins with a table that has the methods side by side.

    Parameters
    ----------
    frame, published, names
        As for `training_summary`.
    networks : Mapping of str to str
        Name of a network in the frame -> its name on the page.
    """
    table = training_summary(frame, published=published, names=names)
    table["problem"] = [networks.get(name, name) for name in table.problem]
    lines = [_training_notes(table)]
    for block, name in TRAINING_BLOCKS.items():
        rows = table[table.block.eq(block)]
        if rows.empty:
            continue
        lines += ["", f"## {name}", ""]
        if sources := sorted({text for text in rows.source if text}):
            lines += [f"Published: {'; '.join(sources)}.", ""]
        if block == "equal":
            lines += [*_side_by_side(rows), ""]
        lines += _training_block(rows)
    return page(title, lines)


def _training_notes(table: pd.DataFrame) -> str:
    private = table[np.isfinite(table.epsilon_add_remove) & table.accountant_promised.ne("")]
    of = private.groupby("method", sort=False).accountant_promised.agg(
        lambda names: "/".join(sorted(set(names)))
    )
    accountants = ", ".join(f"{look(str(method), 'network').label}: {name}" for method, name in of.items())
    text = TRAINING_NOTES.format(accountants=accountants, delta=numbers(private.delta))
    return f"{text}\n{TRAINING_VIOLATED}" if table.violated.ne("").any() else text


def _side_by_side(rows: pd.DataFrame) -> list[str]:
    """Return a table with networks and budgets as rows and methods as columns.

    A published number stands in brackets beside ours.
    """
    methods = rows.method.unique()
    order = rows.problem.map({network: i for i, network in enumerate(rows.problem.unique())})
    lines = []
    for _, group in rows.groupby([order, "epsilon"]):
        of = {row.method: _beside(row) for _, row in group[::-1].iterrows()}
        cells = [group.problem.iloc[0], number(float(group.epsilon.iloc[0]))]
        lines.append([*cells, *(of.get(method, "") for method in methods)])
    labels = [look(method, "network").label for method in methods]
    return table(["network", "tight ε at most", *labels], lines, left=1)


def _seeds(row: pd.Series) -> str:
    return f"{row.seeds}" if row.seeds > 1 else "1 seed" if row.seeds else "diverged"


def _beside(row: pd.Series) -> str:
    if not row.seeds:
        return _seeds(row)
    spread = f" ± {percent(row.sd)}" if row.seeds > 1 else f" ({_seeds(row)})"
    paper = "" if math.isnan(row.accuracy_paper) else f" [{percent(row.accuracy_paper)}]"
    return f"{percent(row.accuracy)}{spread}{'†' if row.violated else ''}{paper}"


def _training_block(rows: pd.DataFrame) -> list[str]:
    """Return the table of one block."""
    columns = ["network", "method", "settings", "published", "ours", "sd", "seeds", "paper's ε", "formula ε"]
    lines = []
    for _, row in rows.iterrows():
        cells = [row.problem, row.label, hyperparameters(row, TRAINING_SYMBOLS), percent(row.accuracy_paper)]
        cells += [_accuracy(row), percent(row.sd), _seeds(row)]
        lines.append([*cells, *(epsilon(row[column]) for column in ["epsilon_claimed", *TRAINING_PRICES])])
    return table([*columns, "tight ε, add/remove", "tight ε, replace-one"], lines, left=3)


# Logistic regression on features: Tables 1 and 2 of ryffel2022

HEAD_KEYS = ["dataset", "block", "run", "method", "schedule", "calibration", "epsilon"]
HEAD_PRICES = {
    "epsilon_claimed": "paper's ε",
    "epsilon_formula_epochs": "formula, K = epochs",
    "epsilon_formula_steps": "formula, K = steps",
    "epsilon_proven": "all iterates",
    "epsilon_last": "last iterate",
    "epsilon_attack": "attack on a pair that this problem admits, at least",
    "epsilon_add_remove": "add/remove",
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
    "tight": "proven price at ε = 1",
    "": "",
}
PAPER_NETWORKS = {"paper_resnet18": "ResNet-18", "paper_alexnet": "AlexNet"}
HEAD_INTRODUCTION = """\
Logistic regression on the features of a network trained on public images, {schedule}: DP-Langevin (the paper's
DP-SGLD) beside DP-SGD and training without privacy. First as the authors' public code and commands ran it, on the
paper's networks; then with their noise and clips, but the steps and minibatches of the text, on rows that are cut; then
with noise chosen anew, where only rows of the same proven price compare. But for the first, as in the paper, step sizes
follow from the largest eigenvalue of the private features, which no ε here pays for; in the last block they follow
from the public bound on the rows."""
HEAD_NOTES = """\
Accuracy on the test set in %: the last iterate ("ours"), mean over seeds with its 95 % t-interval, and that of the
best epoch on the test set, which the authors' code reports and the paper's numbers are; these stand in every block,
for which the paper prints ε = 1.0. Weights of its networks are not public: ours were trained on the same images.
Beside a network that the paper does not have stand its numbers for those that it has. The five ε, at the δ of the
row, for replace-one neighbours: the paper's Theorem 3.1 with K = epochs, as its code counts (the steps are those of
our features, so it is not quite 1), and with K = steps, as the theorem says (no bound for batches: the proof covers
full batches); the smallest ε that we can prove with all iterates visible (for DP-Langevin's subsets by the larger of
both directions of a step, up to 25 % above each alone; for shuffled epochs, as the authors ran it, without what
shuffling may hide, so that the truth lies between the attack and it); a bound for the last iterate alone (Bok, Su,
Altschuler 2024), where it applies; and a lower
bound ({confidence} confidence) by an attack on a pair of records that this problem admits, through the step that
trains. The attack takes the best of a flipped label, x and -x, and pairs of other lengths. All other records are zero,
which is no record of the data. Where the authors' code has no bound on the rows, the pair is no longer than 99 % of the
public rows, and the bias is left out. In the block "attacked among the records" all other records are
those of the data set, and the pair is x and -x along the direction in which these have the smallest second moment;
each run of this attack is a whole training. An attack on the theorem's
hypotheses, any loss with gradients as long, shows more of the same start, steps and noise (the authors' code starts
closer to a known point than the theorem does). Add/remove: the price for the other kind of neighbours with Poisson
batches, which is what the authors' accountant for DP-SGD computes."""


def heads_summary(frame: pd.DataFrame, *, schedule: str, published: Published = ()) -> pd.DataFrame:
    """Return one row for each set of features and run with one schedule: accuracy, prices and settings.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`. Their data sets are sets of features, named <dataset>_<network>.
    schedule : {"constant", "decreasing"}
        Schedule of the step sizes.
    published : Sequence of Mapping
        Printed accuracies {dataset, method, network, accuracy}. A number stands beside the rows of its own
        features (columns paper_<network>). It also stands beside features of networks that the paper does not
        have.

    Returns
    -------
    DataFrame
        Accuracy with its 95 % interval over seeds (low, high), accuracy of the best epoch, prices and
        settings.

    Raises
    ------
    ValueError
        No run has this schedule.
    """
    kept = frame[frame.schedule.eq(schedule) & frame.block.isin(list(HEAD_BLOCKS))]
    if kept.empty:
        raise ValueError(f"no run with schedule {schedule!r}: the runs have {sorted(set(frame.schedule))}")
    networks = [*dict.fromkeys(f"paper_{printed['network']}" for printed in published)]
    rows = []
    for row, group in seed_summaries(kept, HEAD_KEYS):
        row |= dict.fromkeys(networks, math.nan)
        task, _, network = row["dataset"].partition("_")
        has = network in [printed["network"] for printed in published if printed["dataset"] == task]
        for printed in published:
            mine = printed["network"] == network or not has
            if printed["dataset"] == task and mine and row["method"] == printed["method"]:
                row[f"paper_{printed['network']}"] = printed["accuracy"]
        row["epsilon_claimed"] = row["epsilon"] if row["calibration"] == "published" else math.nan
        best = group.get(BEST, pd.Series(math.nan, group.index))
        rows.append({**group.iloc[0], **row, BEST: best.mean()})
    columns = [*HEAD_KEYS, *networks, *SCORES, BEST, *HEAD_PRICES, *HEAD_SETTINGS, "violated"]
    table = pd.DataFrame(rows)[columns]
    return sort_by(table, block=[*HEAD_BLOCKS], dataset=[*table.dataset.unique()])


def of_features(features: Mapping[str, Mapping[str, str]], name: str) -> Mapping[str, str]:
    """Return task, network and source of a set of features, as `heads_page` describes them."""
    return features.get(name, {"task": name, "network": name, "source": ""})


def heads_page(
    frame: pd.DataFrame,
    *,
    schedule: str,
    published: Published,
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> str:
    """Return a Markdown page with a table for each block of runs.

    Parameters
    ----------
    frame, schedule, published
        As for `heads_summary`.
    features : Mapping
        Set of features -> {task, network, source}: the classification task, the network that computed the
        features, and the source of images and weights in words.
    """
    table = heads_summary(frame, schedule=schedule, published=published)
    steps = {"constant": "constant step size", "decreasing": "decreasing step size"}[schedule]
    confidence = "/".join(f"{100 * value:g} %" for value in sorted(frame.attack_confidence.dropna().unique()))
    lines = [HEAD_INTRODUCTION.format(schedule=steps), ""]
    for name in table.dataset.unique():
        of = of_features(features, name)
        lines.append(f"- {of['task']}: {of['network']}. {of['source']}".rstrip())
        here = frame.dataset.eq(name) & frame.schedule.eq(schedule)
        lines += _assumed(frame.assumptions[here], indent="  ")
    lines += ["", HEAD_NOTES.format(confidence=confidence or "95 %")]
    lines += _failed(table)
    for block, name in HEAD_BLOCKS.items():
        rows = table[table.block.eq(block)]
        if len(rows):
            lines += ["", f"## {name}", "", *_heads_block(rows, features)]
    return page(title, lines)


def _heads_block(rows: pd.DataFrame, features: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the table of one block."""
    papers = {
        column: name
        for column, name in PAPER_NETWORKS.items()
        if column in rows and rows[column].notna().any()
    }
    columns = [
        "task",
        "network",
        "method",
        "noise",
        "settings",
        *(f"paper, {name}" for name in papers.values()),
    ]
    lines, best = [], bool(rows.accuracy_best_epoch.notna().any())
    for _, row in rows.iterrows():
        of = of_features(features, row.dataset)
        cells = [of["task"], of["network"], look(row.method, "features").label, NOISE[row.calibration]]
        cells += [hyperparameters(row, HEAD_SYMBOLS), *(percent(row[column]) for column in papers)]
        cells += [percent(row.accuracy_best_epoch)] if best else []
        lines.append([*cells, _accuracy(row), _interval(row), f"{row.seeds}", *_prices(row, HEAD_PRICES)])
    columns += ["best epoch"] if best else []
    return table([*columns, "ours", "95 % interval", "seeds", "δ", *HEAD_PRICES.values()], lines, left=5)


def _prices(row: pd.Series, columns: Iterable[str]) -> list[str]:
    """Return δ and the prices of a row, empty texts for a run without privacy."""
    if row.method == "sgd":
        return [""] * (1 + len([*columns]))
    return [number(row.delta), *(epsilon(row[column]) for column in columns)]


# The last block is trained too: Table 3 of ryffel2022

FINETUNE_PRICES = {
    "epsilon_promised": "paper's ε",
    "epsilon_proven": "tight, replace-one",
    "epsilon_add_remove": "tight, add/remove",
}
FINETUNE_SETTINGS = [
    "delta",
    "step_size",
    "clip",
    "noise_multiplier",
    "batch",
    "epochs",
    "steps",
    "parameters",
]
TRAINED_PARTS = {
    "head_resnet18": "The head alone",
    "fourth_stage": "Fourth stage and head",
    "head": "The head alone",
    "block": "Last block and head",
}
FINETUNE_NOTES = """\
CIFAR-10: the last block of a network that was trained on CIFAR-100 is trained together with a new head, by DP-SGD and
without privacy, and for comparison the head alone in the same loop. Accuracy on the test set in %: the last iterate,
mean over seeds with its 95 % t-interval, and that of the best epoch on the test set, which the authors' code reports.
The paper's numbers are of a ResNet-18 whose weights are not public, its "last and fourth block", and for the head those
of Table 1. On the ResNet-18 all settings are the authors'; on the ResNet-20, which the paper does not have, step and
clip were chosen with images held out."""


def finetune_summary(frame: pd.DataFrame, *, published: Published = ()) -> pd.DataFrame:
    """Return one row for each run, with accuracy and its 95 % interval over seeds, prices and settings.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`.
    published : Sequence of Mapping
        Printed accuracies {run, accuracy}.
    """
    printed = {entry["run"]: entry["accuracy"] for entry in published}
    rows = []
    for row, group in seed_summaries(frame, ["run", "problem", "method"]):
        best = group.get(BEST, pd.Series(math.nan, group.index)).mean()
        own = {"paper_resnet18": printed.get(row["run"], math.nan), BEST: best}
        rows.append({**group.iloc[0], **row, **own})
    columns = [
        "run",
        "problem",
        "method",
        "paper_resnet18",
        *SCORES,
        BEST,
        *FINETUNE_PRICES,
        *FINETUNE_SETTINGS,
    ]
    return sort_by(pd.DataFrame(rows)[[*columns, "violated"]], problem=[*TRAINED_PARTS])


def finetune_page(
    frame: pd.DataFrame, *, published: Published, networks: Mapping[str, str], title: str = ""
) -> str:
    """Return a Markdown page with one table.

    Parameters
    ----------
    frame, published
        As for `finetune_summary`.
    networks : Mapping of str to str
        Problem -> name of its network on the page.
    """
    summary = finetune_summary(frame, published=published)
    notes = [FINETUNE_NOTES, *_assumed(frame.assumptions), *_failed(summary), ""]
    columns = [
        "trained",
        "network",
        "method",
        "settings",
        "parameters",
        "paper, ResNet-18",
        "best epoch",
        "ours",
        "95 % interval",
    ]
    lines = []
    for _, row in summary.iterrows():
        cells = [TRAINED_PARTS[row.problem], networks[row.problem], look(row.method, "features").label]
        cells += [hyperparameters(row, HEAD_SYMBOLS), f"{row.parameters:.0f}", percent(row.paper_resnet18)]
        cells += [percent(row.accuracy_best_epoch)]
        lines.append([*cells, _accuracy(row), _interval(row), f"{row.seeds}", *_prices(row, FINETUNE_PRICES)])
    return page(title, [*notes, *table([*columns, "seeds", "δ", *FINETUNE_PRICES.values()], lines, left=4)])


# Smoothness and condition numbers: Table 4 of ryffel2022

RATIO_NOTES = """\
The ratio (ε n²/(α d))/(β/λ)² of Theorem 4.2: K grows as n² where it is below 1. Rows of the paper are computed from its
printed β, the λ of its commands and n; ours from the features. The printed ratios come out with d = classes, ε = 1 and
the integer order α of the epoch that its code reports (the best on the test set). The number of parameters, which the
theorem means by d, is classes × features (the number of features is that of their public code). In the last column
α = 1 + 2 ln(1/δ)/ε and half of ε as well, as the proof of the (ε, δ) version sets them, δ = 1e-5. Our α is the best
order of the formula at K = epochs. λ is the strong convexity (the regulariser is (λ/2)‖W‖²). Our β is that of the
lemma, ½ λ_max(XᵀX/n) + λ, read off the private features; their code averages ½ λ_max over minibatches, which is no
less. It grows with the square of the scale of the features, which is a choice (`conf/problem`)."""


def ratios_page(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> str:
    """Return a Markdown page with one table of the ratios of Theorem 4.2.

    The arguments are those of `papers.claims.ryffel2022.growth_ratios`.
    """
    columns = ["source", "task", "network", "n", "classes", "features", "β", "λ", "β/λ", "α", "printed"]
    ratios = ["ratio_published", "ratio_classes", "ratio_theorem", "ratio_proof"]
    lines = []
    for row in growth_ratios(frame, paper=paper, features=features).to_dict("records"):
        cells = [row["source"], row["task"], row["network"]]
        cells += [f"{n:.0f}" for n in (row["records"], row["classes"], row["parameters"] / row["classes"])]
        cells += [f"{row['smoothness']:.4g}", number(row["l2"]), _power(row["condition"])]
        lines.append([*cells, f"{row['order']:.3g}", *(_power(row[key]) for key in ratios)])
    columns += ["d = classes", "d = classes × features", "and the proof's α, ε"]
    return page(title, [RATIO_NOTES, "", *table(columns, lines, left=3)])


def _power(value: float) -> str:
    """Return a number with two digits, as the paper prints it (5.5e4); "" for nan."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return "" if math.isnan(value) else f"{mantissa}e{int(exponent)}"
