"""Every Markdown table, and the pages of the trained networks and of the claims; the summaries are the numbers behind
the figures as well. Functions are pure: frames of `exhibits.read` in, a frame or text out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.claims import verdicts
from dplangevin.claims.ryffel2022 import growth_ratios
from dplangevin.exhibits.style import look
from dplangevin.statistics import matches, seed_summaries, sort_by
from dplangevin.text import distinct, epsilon, number, numbers, percent, setting

Published = Sequence[Mapping[str, Any]]


def table(columns: Sequence[str], rows: Iterable[Iterable[str]], left: int | None = None) -> list[str]:
    """The lines of a Markdown table: the first `left` columns to the left, the others to the right; without `left` none
    says how it is aligned."""
    if left is None:
        rule = f"|{'|'.join(['---'] * len(columns))}|"
    else:
        rule = _line(["---"] * left + ["---:"] * (len(columns) - left))
    return [_line(columns), rule, *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page(title: str, lines: Iterable[str]) -> str:
    """A page of Markdown."""
    return "\n".join([f"# {title}", "", *lines]) + "\n"


def hyperparameters(row: pd.Series, names: Mapping[str, str]) -> str:
    """What a row was trained with, in short; names: column -> symbol. What its method lacks is left out."""
    return ", ".join(
        f"{name} {setting(row[column])}"
        for column, name in names.items()
        if column in row and np.isfinite(row[column])
    )


def _accuracy(row: pd.Series) -> str:
    return percent(row.accuracy) + ("†" if row.violated else "")


def _interval(row: pd.Series) -> str:
    """The 95 % interval of an accuracy in %, or why there is none."""
    if row.seeds < 2:
        return "one seed" if row.seeds else "diverged"
    return f"{percent(row.low)} to {percent(row.high)}"


def _failed(table: pd.DataFrame) -> list[str]:
    """A line on what † means, with the distinct texts of `violated`; none where nothing is."""
    texts = distinct(table.violated)
    return [f"†: not met: {'; '.join(texts)}."] if texts else []


def _assumed(texts: pd.Series, indent: str = "") -> list[str]:
    listed = distinct(texts)
    return [f"{indent}Assumed, in all rows or some: {'; '.join(listed)}."] if listed else []


# Networks trained from scratch: Table 1 of li2019

TRAINING_KEYS = ["dataset", "problem", "block", "run", "method", "epsilon"]
TRAINING_PRICES = ["epsilon_paper", "epsilon_add_remove", "epsilon_replace_one"]
TRAINING_COLUMNS = [
    *TRAINING_KEYS, "label", "accuracy_paper", "epsilon_claimed", "source", "delta", "step_size", "batch", "epochs",
    "clip", "noise_multiplier", "seeds", "accuracy", "sd", "low", "high", "accuracy_single", "log_loss",
    "log_loss_single", "brier", "ece", "ece_single", *TRAINING_PRICES, "answered", "epsilon_data_dependent",
    "accountant_paper", "violated",
]  # fmt: skip
TRAINING_MEANS = ["accuracy_single", "log_loss_single", "brier", "ece", "ece_single"]
TRAINING_SYMBOLS = {
    "step_size": "η", "batch": "batch", "epochs": "epochs", "clip": "clip", "noise_multiplier": "σ",
    "answered": "answered", "epsilon_data_dependent": "ε that depends on the data",
}  # fmt: skip
TRAINING_BLOCKS = {
    "nonprivate": "Without privacy",
    "printed": "The paper's printed settings",
    "equal": "At equal audited ε",
    "reference": "A published number for the small network",
}
TRAINING_NOTES = """\
Accuracy on the test set in %, the mean over seeds and their standard deviation; with one seed there is no standard
deviation. Samplers predict with the average of their posterior samples. The paper's ε is the one it prints; formula:
that of the paper's accountant, or of the method's own where that has no price; tight: the smallest ε that we can prove,
for the two kinds of neighbours; all at δ = {delta}. Equal audited ε: the noise is chosen so that the tight price under
add/remove is at most the ε of the row. η: step size, σ: noise multiplier. PATE learns from the even test images and is
scored on the odd ones. Published numbers are those of the paper's network, also where they stand beside another.
Formula: {accountants}."""
TRAINING_VIOLATED = "†: a condition of the guarantee is not met."


def training_summary(
    frame: pd.DataFrame, *, published: Published = (), names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """One row per run and budget: label, settings, published accuracy, ours with its 95 % interval over seeds, prices.

    frame: rows of `read.read_seeds`. published: printed numbers as {where: {column: value or list}, accuracy,
    epsilon (may be absent), source (may be absent)}; `where` picks the rows that a number stands beside. names: run ->
    label, where that of its method does not say enough. sd, low and high are nan for one seed.
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
    """Markdown: a table for each block; for that of equal audited ε first the methods side by side. networks: name of a
    network in the frame -> what the page calls it."""
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
    private = table[np.isfinite(table.epsilon_add_remove) & table.accountant_paper.ne("")]
    of = private.groupby("method", sort=False).accountant_paper.agg(
        lambda names: "/".join(sorted(set(names)))
    )
    accountants = ", ".join(f"{look(str(method), 'network').label}: {name}" for method, name in of.items())
    text = TRAINING_NOTES.format(accountants=accountants, delta=numbers(private.delta))
    return f"{text}\n{TRAINING_VIOLATED}" if table.violated.ne("").any() else text


def _side_by_side(rows: pd.DataFrame) -> list[str]:
    """Networks x budgets down, methods across; a printed number stands in brackets beside ours."""
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
    "epsilon_tight": "all iterates",
    "epsilon_last": "last iterate",
    "epsilon_audit": "attack on this row, at least",
    "epsilon_add_remove": "add/remove",
}
HEAD_SETTINGS = [
    "delta", "step_size", "l2", "smoothness", "clip", "noise_std", "noise_multiplier", "batch", "epochs", "steps",
    "records", "parameters", "classes",
]  # fmt: skip
SCORES = ["accuracy", "low", "high", "seeds", "log_loss"]
HEAD_SYMBOLS = {
    "step_size": "η", "l2": "λ", "clip": "clip", "noise_std": "σ", "noise_multiplier": "σ/clip",
    "batch": "batch", "epochs": "epochs",
}  # fmt: skip
HEAD_BLOCKS = {
    "published": "The authors' settings",
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
DP-SGLD) beside DP-SGD and training without privacy. The first block shows what the authors' own settings cost; in the
second the noise is chosen anew, and only rows of the same proven price compare. In both, as in the paper, step sizes
follow from the largest eigenvalue of the private features, which no ε here pays for; in the third they follow from the
public bound on the rows."""
HEAD_NOTES = """\
Accuracy on the test set in %: the last iterate, mean over seeds with its 95 % t-interval. The paper's numbers, for
which it prints ε = 1.0 (they stand in both blocks), are of **another network** than ours, and its code reports the best
epoch on the test set. The five ε, at the δ of the row, for replace-one neighbours: the paper's Theorem 3.1 with K =
epochs, as its code counts (the steps are those of our features, so it is not quite 1), and with K = steps, as the
theorem says (no bound for batches: the proof covers full batches); the smallest ε that we can prove with all iterates
visible (for DP-Langevin's subsets by the larger of both directions of a step, up to 25 % above each alone); a bound for
the last iterate alone (Bok, Su, Altschuler 2024), where it applies; what an attack on this row shows to be lost at
least ({confidence} confidence). That attack is on a pair of records that this problem admits, the best of a flipped
label, x and -x, and pairs of other lengths, all other rows being zero, through the step that trains; an attack on the
theorem's hypotheses, any loss with gradients as long, shows more. Add/remove: the price for the other kind of
neighbours with Poisson batches, which is what the authors' accountant for DP-SGD computes."""


def heads_summary(frame: pd.DataFrame, *, schedule: str, published: Published = ()) -> pd.DataFrame:
    """One row per features and run of one schedule: accuracy with its 95 % interval over seeds, prices, settings.

    frame: rows of `read.read_seeds`, whose data sets are features. published: printed accuracies as {dataset, method,
    network, accuracy}, which stand beside the rows whose features begin with the data set (columns paper_<network>).
    """
    kept = frame[frame.schedule.eq(schedule) & frame.block.isin(list(HEAD_BLOCKS))]
    if kept.empty:
        raise ValueError(f"no run with schedule {schedule!r}: the runs have {sorted(set(frame.schedule))}")
    networks = [*dict.fromkeys(f"paper_{printed['network']}" for printed in published)]
    rows = []
    for row, group in seed_summaries(kept, HEAD_KEYS):
        row |= dict.fromkeys(networks, math.nan)
        for printed in published:
            if row["dataset"].startswith(f"{printed['dataset']}_") and row["method"] == printed["method"]:
                row[f"paper_{printed['network']}"] = printed["accuracy"]
        row["epsilon_claimed"] = row["epsilon"] if row["calibration"] == "published" else math.nan
        rows.append({**group.iloc[0], **row})
    columns = [*HEAD_KEYS, *networks, *SCORES, *HEAD_PRICES, *HEAD_SETTINGS, "violated"]
    table = pd.DataFrame(rows)[columns]
    return sort_by(table, block=[*HEAD_BLOCKS], dataset=[*table.dataset.unique()])


def of_features(features: Mapping[str, Mapping[str, str]], name: str) -> Mapping[str, str]:
    """What a page calls the task and the network of some features, and where these are from."""
    return features.get(name, {"task": name, "network": name, "source": ""})


def heads_page(
    frame: pd.DataFrame,
    *,
    schedule: str,
    published: Published,
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> str:
    """Markdown: a table for each block. features: name in the frame -> {task, network, source}: the classification
    task, the network behind the features, and in words where images and weights are from."""
    table = heads_summary(frame, schedule=schedule, published=published)
    steps = {"constant": "constant step size", "decreasing": "decreasing step size"}[schedule]
    confidence = "/".join(f"{100 * value:g} %" for value in sorted(frame.audit_confidence.dropna().unique()))
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
    lines = []
    for _, row in rows.iterrows():
        of = of_features(features, row.dataset)
        cells = [of["task"], of["network"], look(row.method, "features").label, NOISE[row.calibration]]
        cells += [hyperparameters(row, HEAD_SYMBOLS), *(percent(row[column]) for column in papers)]
        lines.append([*cells, _accuracy(row), _interval(row), f"{row.seeds}", *_prices(row, HEAD_PRICES)])
    return table([*columns, "ours", "95 % interval", "seeds", "δ", *HEAD_PRICES.values()], lines, left=5)


def _prices(row: pd.Series, columns: Iterable[str]) -> list[str]:
    """Delta and prices; nothing where there is no privacy."""
    if row.method == "sgd":
        return [""] * (1 + len([*columns]))
    return [number(row.delta), *(epsilon(row[column]) for column in columns)]


# The last block trained as well: Table 3 of ryffel2022

FINETUNE_PRICES = {
    "epsilon_paper": "paper's ε",
    "epsilon_tight": "tight, replace-one",
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
TRAINED_PARTS = {"head": "The head alone", "block": "Last block and head"}
FINETUNE_NOTES = """\
CIFAR-10: the last block of {network} is trained together with its head, by DP-SGD and without privacy, and for
comparison the head alone in the same loop with the same settings. Accuracy on the test set in %: the last iterate, mean
over seeds with its 95 % t-interval. The paper's numbers are of **another network** (ResNet-18, its "last and fourth
block", and for the head those of Table 1), and its code reports the best epoch on the test set."""


def finetune_summary(frame: pd.DataFrame, *, published: Published = ()) -> pd.DataFrame:
    """One row per run: accuracy with its 95 % interval over seeds, prices, settings. frame: rows of
    `read.read_seeds`. published: printed accuracies as {run, accuracy}."""
    printed = {entry["run"]: entry["accuracy"] for entry in published}
    rows = []
    for row, group in seed_summaries(frame, ["run", "problem", "method"]):
        rows.append({**group.iloc[0], **row, "paper_resnet18": printed.get(row["run"], math.nan)})
    columns = ["run", "problem", "method", "paper_resnet18", *SCORES, *FINETUNE_PRICES, *FINETUNE_SETTINGS]
    return sort_by(pd.DataFrame(rows)[[*columns, "violated"]], problem=[*TRAINED_PARTS])


def finetune_page(frame: pd.DataFrame, *, published: Published, network: str, title: str = "") -> str:
    """Markdown: one table. network: what the page calls the network."""
    summary = finetune_summary(frame, published=published)
    notes = [FINETUNE_NOTES.format(network=network), *_assumed(frame.assumptions), *_failed(summary), ""]
    columns = [
        "trained",
        "network",
        "method",
        "settings",
        "parameters",
        "paper, ResNet-18",
        "ours",
        "95 % interval",
    ]
    lines = []
    for _, row in summary.iterrows():
        cells = [TRAINED_PARTS[row.problem], network, look(row.method, "features").label]
        cells += [hyperparameters(row, HEAD_SYMBOLS), f"{row.parameters:.0f}", percent(row.paper_resnet18)]
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
    """Markdown: one table; arguments as for `claims.ryffel2022.growth_ratios`."""
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
    """To two digits, as the paper prints them: 5.5e4; nan is empty."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return "" if math.isnan(value) else f"{mantissa}e{int(exponent)}"


# The claims

PAPERS = {
    "wang2015": "Wang, Fienberg and Smola, *Privacy for Free*, ICML 2015",
    "li2019": "Li, Chen, Liu and Carin, *Towards More Practical SG-MCMC in Differential Privacy*",
    "ryffel2022": "Ryffel, Bach and Pointcheval, *Differential Privacy Guarantees for SGLD*",
}
# the section that a numbered statement stands in, for the order of the page; what begins with "Section" says it itself
PLACES: dict[str, dict[str, tuple[float, ...]]] = {
    "wang2015": {
        "Abstract": (0,), "Algorithm 1": (3, 0), "Theorem 1": (3, 1), "Proposition 1": (3, 2), "Proposition 2": (3, 2),
        "Proposition 3": (3, 3), "Algorithm 3": (4, 1), "Theorem 4": (4, 1), "Figure 1": (5,),
        "Supplement A": (10, 1), "Supplement B": (10, 2), "Supplement, Proposition 4": (10, 2),
        "Supplement, Section B": (10, 2), "Supplement C": (10, 3), "Supplement, Lemma 5": (10, 3),
        "Supplement, Theorem 5": (10, 3), "Supplement D": (10, 4), "Supplement, Section D": (10, 4),
        "Supplement, Figure 2": (10, 4), "Supplement E": (10, 5),
    },
    "li2019": {
        "Lemma 2": (2, 2), "Remark 1": (2, 2), "Algorithm 1": (2, 3), "Theorem": (3, 1), "Remark 2": (3, 1),
        "Proposition": (3, 2), "Table 1": (4, 3), "Supplement": (10,),
    },
    "ryffel2022": {
        "Abstract": (0,), "Lemma 3.3": (3, 3), "Theorem 3.1": (3, 3), "Corollary 3.3": (3, 3), "Lemma 4.1": (4, 1),
        "Table": (5, 2), "Appendix": (10,),
    },
}  # fmt: skip
CLAIM_VERDICTS = {
    verdicts.REPRODUCED: "the claim is shown with the default choices",
    verdicts.UNDER_CHOICES: "it is shown with other choices that the paper leaves open, which the reason names, or on "
    "a stand-in or invented data",
    verdicts.NOT_REPRODUCED: "neither the claim nor its opposite is shown",
    verdicts.CONTRADICTED: "the opposite is shown, in the paper's setting or where it states none, by a 95 % interval, "
    "a proof, an exact computation or an attack at 95 %",
    verdicts.NOT_TESTABLE: "there is nothing to compare, and the reason says what is missing",
    verdicts.HOLDS: "of a question of ours: shown, as above",
    verdicts.FAILS: "of a question of ours: the opposite is shown",
    verdicts.UNDECIDED: "of a question of ours: neither is shown",
}
CLAIM_KINDS = {
    "paper": "the paper's words decide",
    "reading": "the words leave a size open, and ours decides; it never contradicts",
    "extension": "a question of ours that the paper does not ask, counted apart, such as the same ordering at equal "
    "audited ε",
}
CLAIM_SETTINGS = {
    "paper": "as the paper states it, or no setting is needed",
    "chosen": "chosen by us where the paper states none",
    "stand-in": "another network or other data than the paper's; never contradicts",
    "invented": "data or sizes that the paper does not give; never contradicts",
}
CLAIM_MEASURES = {
    verdicts.INTERVAL: "a 95 % interval over independent splits or draws",
    verdicts.ONE_SPLIT: "a 95 % interval over seeds on one split, without the sampling error of the test rows",
    verdicts.EXACT: "smallest and largest of several numbers of a proof or an exact computation",
    verdicts.ATTACK: "a lower bound by an attack (95 %) and the largest proven price; ours is a proven price between",
    verdicts.RANGE: "smallest and largest of several values, not an interval; never contradicts",
    "": "none: one value, as of one seed; never contradicts",
}
CLAIM_RULE = """\
One rule for both sides. An ordering is reproduced if the 95 % interval of the paired difference lies on the claimed
side and no single budget is significantly on the other (Holm's correction); it is contradicted if the mirror image of
that holds; everything between is not reproduced. What cannot contradict (a stand-in, invented data, unequal tuning, a
size of ours, a range, one seed) is then "not reproduced", and the reason says why. Claims that restate one fact share
its name, so that one error counts once. More: [docs/verdicts.md](../../docs/verdicts.md)."""
VERDICT_ORDER = [*CLAIM_VERDICTS]


def claims_page(claims: pd.DataFrame, exhibits: Mapping[str, bool]) -> str:
    """A page of the claims table: counts, what is contradicted, a legend, then every sentence of the papers in their
    order with its variants. exhibits: those that are made -> whether there is a page beside the figure."""
    claims = claims.fillna({"measure": "", "exhibit": "", "unit": ""})
    lines = [*_claim_counts(claims), *_contradicted(claims), *_legend()]
    for paper, of_paper in claims.groupby("paper", sort=False):
        lines += ["", f"## {paper}: {PAPERS.get(str(paper), '')}".rstrip(": ")]
        wheres = sorted(of_paper["where"].unique(), key=lambda where: _place(str(paper), where))
        for where in wheres:
            lines += ["", f"### {where}"]
            for statement, group in of_paper[of_paper["where"].eq(where)].groupby("statement", sort=False):
                lines += ["", *_sentence(str(statement), group, exhibits)]
    return page("Claims and verdicts", lines)


def _claim_counts(claims: pd.DataFrame) -> list[str]:
    own = claims[~claims.kind.eq("extension")]
    asked = claims[claims.kind.eq("extension")]
    columns = [*CLAIM_VERDICTS][:5]
    lines = []
    for kind, name in (("paper", "the papers' words"), ("reading", "readings of ours")):
        part = own[own.kind.eq(kind)]
        parts = [
            (f"**{name}**", part),
            *((str(paper), rows) for paper, rows in part.groupby("paper", sort=False)),
        ]
        for label, rows in parts:
            lines.append(
                [label, *(f"{rows.verdict.eq(verdict).sum()}" for verdict in columns), f"{len(rows)}"]
            )
    counts = asked.verdict.value_counts()
    listed = ", ".join(f"{counts[v]} {v}" for v in VERDICT_ORDER if v in counts)
    return [
        f"{len(own)} claims of the papers, and {len(asked)} questions of ours beside them.",
        "",
        *table(["", *columns, "all"], lines, left=1),
        "",
        f"Questions of ours (extensions): {listed or 'none'}.",
    ]


def _contradicted(claims: pd.DataFrame) -> list[str]:
    """The distinct facts behind the contradicted claims."""
    rows = claims[claims.verdict.eq(verdicts.CONTRADICTED)]
    if rows.empty:
        return []
    facts = rows.groupby("fact", sort=False)
    lines = []
    for fact, group in facts:
        places = "; ".join(dict.fromkeys(f"{row.paper}, {row.where}" for row in group.itertuples()))
        lines.append([f"`{fact}`", places, f"{len(group)}"])
    said = f"The {len(rows)} contradicted claims restate {facts.ngroups} distinct facts:"
    return ["", "## What is contradicted", "", said, "", *table(["fact", "said in", "claims"], lines)]


def _legend() -> list[str]:
    lines = ["", "## How to read this page", "", CLAIM_RULE]
    for name, words in (
        ("verdict", CLAIM_VERDICTS),
        ("kind", CLAIM_KINDS),
        ("setting", CLAIM_SETTINGS),
        ("low to high", CLAIM_MEASURES),
    ):
        lines += ["", *table([name, "meaning"], ([key or "(empty)", text] for key, text in words.items()))]
    return lines


def _place(paper: str, where: str) -> tuple[float, ...]:
    """The section of a sentence; unknown places come last."""
    if found := re.match(r"Section (\d+)(?:\.(\d+))?", where):
        return tuple(float(part) for part in found.groups() if part)
    known = PLACES.get(paper, {})
    starts = [start for start in known if where.startswith(start)]
    return known[max(starts, key=len)] if starts else (99.0,)


def _sentence(statement: str, group: pd.DataFrame, exhibits: Mapping[str, bool]) -> list[str]:
    """One sentence of a paper: its variants in a table, the reasons below, what shows them and how to make it again."""
    rows = [*group.itertuples()]
    cells = []
    for row in rows:
        name = f"`{str(row.id).removeprefix(f'{row.paper}_')}`"
        cells.append(
            [name, _claim_number(row), _limits(row), f"{row.kind}, {row.setting}", f"**{row.verdict}**"]
        )
    columns = ["claim", "ours", "low to high", "kind, setting", "verdict"]
    lines = [f"> {_plain(statement)}", "", *table(columns, cells), ""]
    asked = [*dict.fromkeys(str(row.published) for row in rows)]
    if len(asked) == 1:
        lines += [f"Asked: {_plain(asked[0])}.", ""]
    for row, cell in zip(rows, cells, strict=True):
        wanted = "" if len(asked) == 1 else f"Asked: {_plain(str(row.published))}. "
        lines.append(f"- {cell[0]}: {wanted}{_capital(_plain(str(row.reason)))}.")
    return [*lines, "", *_shown(group, exhibits)]


def _claim_number(row: Any) -> str:
    return "" if pd.isna(row.ours) else f"{_digits(row.ours)} {row.unit}".strip()


def _limits(row: Any) -> str:
    """Low and high, and what they are; one that is missing is left open."""
    if pd.isna(row.low) and pd.isna(row.high):
        return row.measure if not pd.isna(row.ours) else ""
    low, high = ("?" if pd.isna(end) else _digits(end) for end in (row.low, row.high))
    return f"{low} to {high} ({row.measure})"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e6 else number(float(f"{value:.4g}"))


def _plain(text: str) -> str:
    """Text in which Markdown finds no emphasis."""
    return " ".join(text.split()).rstrip(".").replace("*", "\\*")


def _capital(text: str) -> str:
    """The first letter as a capital where the text begins with a word."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]{2,}\b", text) else text


def _shown(group: pd.DataFrame, exhibits: Mapping[str, bool]) -> list[str]:
    """Figures, pages and commands of the exhibits behind a sentence, or the file where there is none."""
    names = [*dict.fromkeys(name for text in group.exhibit for name in text.split("; ") if name)]
    parts = []
    for name in names:
        command = f"`make exhibit ID={name} FORCE=1`"
        if name not in exhibits:  # made on request only
            parts.append(f"{name}: not made here; `make exhibit ID={name} FORCE=1 SET=pipeline=svhn`")
            continue
        beside = f", [table](../exhibits/{name}/{name}.md)" if exhibits[name] else ""
        parts.append(f"[{name}](../exhibits/{name}/{name}.png){beside}; {command}")
    for text in dict.fromkeys(group.evidence[group.exhibit.eq("")]):
        stem = PurePosixPath(text).stem
        remade = (
            f"`dvc repro -f prepare@{stem}`"
            if text.startswith("data/manifest/dataset/")
            else "`dvc repro -f claims`"
        )
        parts.append(f"[{text}](../../{text}); {remade}")
    return [f"Shown in {' · '.join(parts)}."] if parts else []
