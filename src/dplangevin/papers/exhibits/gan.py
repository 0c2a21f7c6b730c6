"""Exhibits of the semi-supervised GAN of li2019, section 4.3.

They show accuracy beside privacy prices, scores and pictures of the generated images, and the privacy of the
noise that SGHMC adds by itself. All functions are pure functions of the frames of `papers.exhibits.read`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import networks, style, tables
from dplangevin.papers.exhibits.style import lay_out, look
from dplangevin.papers.exhibits.tables import Published
from dplangevin.papers.statistics import finite_interval, sort_by
from dplangevin.text import distinct, epsilon, number, numbers, percent, short

BLOCKS = {"nonprivate": "", "moments": ", ε {}", "equal": ", tight ε {}"}  # block -> text of the budget
COVERAGE = ["recognised", "digits_covered", "digit_entropy"]  # scores by `judge.DigitClassifier`
SETTINGS = ["step_size", "batch", "epochs", "steps", "clip", "noise_multiplier", "records", "parameters"]
PRICES = ["epsilon_promised", "epsilon_add_remove", "epsilon_replace_one"]
COLUMNS = [
    "problem", "block", "run", "method", "epsilon", "label", "accuracy_paper", "seeds", "accuracy", "sd", "low", "high",
    "accuracy_single", *(f"{name}{end}" for name in COVERAGE for end in ("", "_low", "_high")), *PRICES,
    "accountant_promised", "delta", *SETTINGS, "violated",
]  # fmt: skip
NOTES = """\
Accuracy of the discriminator on the test images in %, the mean over seeds, each with its own 100 labels and its own
start, with a 95 % t-interval; samplers predict with the average of their posterior samples, and one sample is the last.
Published: 98.3 % by SGHMC and 90.8 % by DP-SGD, both at (0.2, 1e-5), without networks, steps or an accountant. Charged:
by the accountant that the noise was chosen with; tight: the smallest ε that we can prove, for the two kinds of
neighbours; all at δ = {delta}. Of 1,000 generated images: the share that a classifier trained on MNIST recognises (it
is 90 % sure of a digit), the digits that at least 1 % of all are recognised as, and the entropy of the recognised ones'
digits in nats (ten even digits: 2.30). Generators see records through the discriminator alone, so that they cost
nothing more."""


def by_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the variant of the problem added to its name, such as "gan labels=public"."""
    of = frame.variant.str.removeprefix("problem.")
    return frame.assign(problem=(frame.problem + " " + of).str.strip())


def summary(
    frame: pd.DataFrame, *, published: Published = (), names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return one row for each problem, run and budget, with accuracy, coverage, prices and settings.

    The numbers are those of `tables.training_summary`. Coverage scores have 95 % t-intervals over seeds.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`.
    published, names
        As for `tables.training_summary`.

    Returns
    -------
    DataFrame
        Columns COLUMNS, as far as the frame has them. accuracy: our mean over seeds, with its 95 % interval.
        accuracy_single: accuracy of the last sample. accuracy_paper: published accuracy.
    """
    named = by_labels(frame)
    table = tables.training_summary(named, published=published, names=names)
    keys = ["problem", "run", "epsilon"]
    for metric in COVERAGE:
        found = {}
        for values, group in named.groupby(keys, sort=False):
            interval = finite_interval(group[metric])
            found[values] = (interval.mean, interval.low, interval.high)
        at = [found[values] for values in table[keys].itertuples(index=False, name=None)]
        for place, end in enumerate(("", "_low", "_high")):
            table[f"{metric}{end}"] = [each[place] for each in at]
    more = named.drop_duplicates(keys)[[*keys, "steps", "records", "parameters"]]
    table = sort_by(table.merge(more, on=keys, validate="one_to_one"), block=[*BLOCKS])
    return table[[column for column in COLUMNS if column in table]]


def accuracy(
    frame: pd.DataFrame,
    *,
    published: Published,
    problems: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw accuracy against the proven ε, with one panel for each problem, by `problems.networks.training`.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`.
    published, names
        As for `tables.training_summary`.
    problems : Mapping of str to str
        Name of a problem as `by_labels` writes it -> title of its panel.
    """
    named = by_labels(frame)
    return networks.training(
        named[named.problem.isin(list(problems))],
        published=published,
        networks=problems,
        names=names,
        title=title,
    )


def page(
    frame: pd.DataFrame,
    *,
    published: Published,
    problems: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """Return a Markdown page with a table for each problem.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_seeds`.
    published, names
        As for `tables.training_summary`.
    problems : Mapping of str to str
        Name of a problem as `by_labels` writes it -> its heading.
    """
    table = summary(frame, published=published, names=names)
    lines = [NOTES.format(delta=numbers(table.delta[np.isfinite(table.epsilon_add_remove)]))]
    for problem, heading in problems.items():
        rows = table[table.problem.eq(problem)]
        columns = [
            "learner",
            "settings",
            "published",
            "ours",
            "95 %",
            "one sample",
            "recognised, %",
            "digits",
        ]
        columns += ["entropy", "seeds", "charged ε", "tight ε, add/remove", "tight ε, replace-one"]
        cells = [_cells(row) for _, row in rows.iterrows()]
        lines += ["", f"## {heading}", "", *tables.table(columns, cells, left=2)]
    if texts := distinct(table.violated):
        lines += ["", f"†: not met: {'; '.join(texts)}."]
    if texts := distinct(frame.assumptions):
        lines += ["", f"Assumed: {'; '.join(texts)}."]
    return tables.page(title, lines)


def _cells(row: pd.Series) -> list[str]:
    symbols = {"step_size": "η", "batch": "batch", "steps": "steps", "clip": "clip", "noise_multiplier": "σ"}
    finite = row.where(~row.isin([math.inf]))
    covered = ["" if math.isnan(row.recognised) else percent(row.recognised)]
    for name, form in (("digits_covered", "{:.1f}"), ("digit_entropy", "{:.2f}")):
        covered.append("" if math.isnan(row[name]) else form.format(row[name]))
    single = percent(row.get("accuracy_single", math.nan))
    return [
        row.label + BLOCKS[row.block].format(short(row.epsilon)) + ("†" if row.violated else ""),
        tables.hyperparameters(finite, symbols),
        percent(row.accuracy_paper),
        percent(row.accuracy),
        f"{percent(row.low)} to {percent(row.high)}",
        single,
        *covered,
        f"{row.seeds}",
        *(epsilon(row[column]) for column in PRICES),
    ]


# Pictures

PICTURES_TEXT = (
    "Ten images of the first seed's generator, from the same latent variables. Beside them, means over seeds: share of "
    "1,000 images that a\nclassifier trained on MNIST is 90 % sure of, digits that at least 1 % are recognised as, and "
    "the entropy of their digits in nats (at most 2.30)."
)


def pictures_summary(
    frame: pd.DataFrame, *, problems: Mapping[str, str], names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return one row for each learner whose images are shown, with its label and coverage scores.

    Parameters
    ----------
    frame : DataFrame
        Rows of `read.read_samples`.
    problems : Mapping of str to str
        Its keys are the problems to show, as `by_labels` writes them.
    names : Mapping of str to str, optional
        Run -> label. Other runs have the label of their method.
    """
    named = by_labels(frame)
    keys = ["problem", "block", "run", "method", "epsilon"]
    table = named[named.problem.isin(list(problems))].drop_duplicates(keys)[[*keys, *COVERAGE]]
    labels = [
        (names or {}).get(run) or look(method, "network").label
        for run, method in zip(table.run, table.method, strict=True)
    ]
    return sort_by(table.assign(label=labels), problem=[*problems], block=[*BLOCKS])


def pictures(
    frame: pd.DataFrame,
    *,
    problems: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw ten generated images for each learner and budget (rows) and each problem (columns).

    The arguments are those of `pictures_summary`; the values of `problems` are the headings of the columns.
    """
    table, named = pictures_summary(frame, problems=problems, names=names), by_labels(frame)
    rows = table.groupby("problem").size().max()
    with style.settings():
        figure = Figure(figsize=(5.6 * len(problems) + 0.2, 0.62 * rows + 1.3))
        axes = figure.subplots(rows, len(problems), squeeze=False)
        for column, (problem, heading) in zip(axes.T, problems.items(), strict=True):
            here = table[table.problem.eq(problem)]
            for ax in column:
                ax.set_axis_off()
            for place, (ax, (_, row)) in enumerate(zip(column, here.iterrows(), strict=False)):
                same = named.problem.eq(problem) & named.run.eq(row.run) & named.epsilon.eq(row.epsilon)
                ax.imshow(
                    np.hstack([image(text) for text in named[same].sort_values("image").pixels]), cmap="gray"
                )
                asked = BLOCKS[row.block].format(short(row.epsilon))
                told = f"{percent(row.recognised)} %, {row.digits_covered:.1f} digits, {row.digit_entropy:.2f} nats"
                first = f"{heading}\n" if place == 0 else ""
                ax.set_title(f"{first}{row.label}{asked}: {told}", fontsize=7.5, pad=2)
        return lay_out(figure, title, PICTURES_TEXT, [])


# The noise that SGHMC adds by itself

NOISE_LINES = {
    "epsilon_add_remove": ("add_remove", "o", "-", "proven, add/remove"),
    "epsilon_replace_one": ("replace_one", "s", "-", "proven, replace-one"),
    "epsilon_moments": ("formula", "v", "--", "moments accountant"),
    "attack_add_remove": ("claimed", "<", ":", "attack, add/remove, at least"),
    "attack_replace_one": ("attack", "^", ":", "attack, replace-one, at least"),
}
NOISE_TEXT = (
    "{steps} steps of SGHMC on Poisson samples of {batch} of {records} records, η = {step}, friction {friction}, "
    "δ = {delta}; nothing is\nclipped. A network bounds no record's gradient, so that no ε holds for all of them."
)


def noise(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw the ε of SGHMC's own noise against the norm of a record's gradient.

    The curves are the proven ε, the ε of the moments accountant and the attack ε.

    `frame` has the rows of the analysis `sghmc_noise`.
    """
    rows, first = frame.sort_values("norm"), frame.iloc[0]
    with style.settings():
        figure = Figure(figsize=(8.4, 4.9), layout="constrained")
        ax, handles = figure.subplots(), []
        for column, (kind, marker, line, label) in NOISE_LINES.items():
            shown = rows[rows[column].gt(0)]
            colour = style.PRICE_COLOURS[kind]
            handles += ax.plot(
                shown.norm, shown[column], color=colour, marker=marker, ls=line, ms=5, label=label
            )
        ax.set(xscale="log", yscale="log", xlabel="norm L of one record's gradient", ylabel="ε")
        ax.set_xticks(rows.norm, [number(value) for value in rows.norm])
        ax.set_xticks([], minor=True)
        text = NOISE_TEXT.format(
            steps=int(first.steps),
            batch=int(first.batch),
            records=f"{int(first.records):,}",
            step=number(first.step_size),
            friction=number(first.friction),
            delta=number(first.delta),
        )
        return lay_out(figure, title, text, handles)


def noise_page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with a row for each gradient norm of the analysis `sghmc_noise`."""
    columns = ["L", "σ", *(of[3] for of in NOISE_LINES.values())]
    cells = [
        [number(row.norm), short(row.noise_multiplier), *(epsilon(row[name]) for name in NOISE_LINES)]
        for _, row in frame.sort_values("norm").iterrows()
    ]
    lines = [
        "SGHMC as in the runs of the GAN without privacy, nothing clipped: ε of its own noise for a record whose",
        f"gradient has norm L at every step. Attacks at {100 * frame.confidence.iloc[0]:g} % confidence.",
    ]
    return tables.page(title, [*lines, "", *tables.table(columns, cells, left=0)])


def image(pixels: str) -> np.ndarray:
    """Return a square image, given as a text of hexadecimal digits, as an array in [0, 1]; 0 is black.

    >>> image("0f80").tolist()
    [[0.0, 1.0], [0.5333333333333333, 0.0]]
    """
    values = np.array([int(digit, 16) for digit in pixels]) / 15
    side = math.isqrt(len(values))
    return values.reshape(side, side)
