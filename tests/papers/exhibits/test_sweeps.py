"""The table and the figure of a sweep: their numbers are those of the rows, whatever is varied."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd
import pytest
from drawing import captions, legend_texts
from scipy import stats

from dplangevin.papers.exhibits import sweeps
from dplangevin.reporting.read import COLUMNS, TEXT

BUDGETS = (0.25, 1.0, 4.0)


def points(
    run: str, variants: Sequence[str], budgets: Sequence[float] = BUDGETS, **more: Any
) -> list[dict[str, Any]]:
    """Rows of a run whose proven ε is half of what was asked; accuracy and log loss of four seeds."""
    rows: list[dict[str, Any]] = []
    empty = {name: "" if name in TEXT else math.nan for name in COLUMNS}
    run_columns = {"experiment": "sweep", "dataset": "abalone", "run": run, "method": run, "scaling": "unit"}
    for (v, variant), (b, epsilon), seed in product(enumerate(variants), enumerate(budgets), range(4)):
        price = {"epsilon": epsilon, "delta": 1e-5, "epsilon_proven": epsilon / 2}
        row = empty | run_columns | price | {"variant": variant, "seed": seed} | more
        value = 0.5 + 0.03 * v + 0.05 * b + 0.01 * seed**2
        rows += [row | {"metric": "accuracy", "value": value}, row | {"metric": "log_loss", "value": -value}]
    return rows


def two_fields() -> pd.DataFrame:
    """OPS by radius and number of rows, and a fit without privacy by number of rows alone."""
    sizes = [f"dataset.train_rows={n}" for n in (300, 3000)]
    rows = points("ops", [f"radius={r};{size}" for size in sizes for r in (1.0, 5.0, 20.0)])
    return pd.DataFrame(rows + points("nonprivate", sizes, [math.inf]))


def test_the_table_has_every_point_at_the_budgets_asked_for_and_at_tight_ones() -> None:
    runs = two_fields()
    table = sweeps.table(runs, epsilons=[1.0, 9.0])
    asked, tight = (table[table.axis.eq(axis)] for axis in ("promised", "proven"))
    assert len(asked) == 6 * 3 + 2
    assert len(tight) == 6  # 9 is above what any point costs, and a fit without privacy costs nothing
    assert sorted(asked.radius.dropna().unique()) == [1.0, 5.0, 20.0]
    assert asked["dataset.train_rows"].tolist() == [300.0] * 9 + [3000.0] * 9 + [300.0, 3000.0]
    assert (asked.epsilon_proven / asked.epsilon_promised)[:18].eq(0.5).all()
    mine = runs[runs.variant.eq("radius=5.0;dataset.train_rows=300") & runs.metric.eq("accuracy")]
    by_seed = mine.pivot(index="seed", columns="epsilon", values="value")
    own = asked[
        asked.radius.eq(5.0) & asked["dataset.train_rows"].eq(300) & asked.epsilon_promised.eq(1.0)
    ].iloc[0]
    low, high = stats.t.interval(0.95, 3, loc=by_seed[1.0].mean(), scale=stats.sem(by_seed[1.0]))
    assert (own["mean"], own.low, own.high) == pytest.approx((by_seed[1.0].mean(), low, high))
    at = tight[tight.radius.eq(5.0) & tight["dataset.train_rows"].eq(300)].iloc[0]
    halfway = by_seed[[1.0, 4.0]].mean(axis=1)  # a tight 1 is an asked 2, in the middle of ln 1 and ln 4
    assert (at["mean"], at.epsilon_promised, at.epsilon_proven) == pytest.approx((halfway.mean(), 2.0, 1.0))
    assert at.high - at["mean"] == pytest.approx(stats.t.ppf(0.975, 3) * stats.sem(halfway))
    loss = sweeps.table(runs, metric="log_loss")
    assert loss["mean"].tolist() == pytest.approx((-sweeps.table(runs)["mean"]).tolist())
    with pytest.raises(ValueError, match=r"no metric 'acuracy'; did you mean accuracy\?"):
        sweeps.table(runs, metric="acuracy")
    with pytest.raises(ValueError, match="nothing is varied"):
        sweeps.table(pd.DataFrame(points("ops", [""])))


@pytest.mark.parametrize(
    ("name", "values", "names"),
    [
        ("radius", (10.0, 1.0, 100.0), ["1", "10", "100"]),
        ("bound", ("range", "paper"), ["range", "paper"]),
        ("sampling.batch", ("None", "64"), ["None", "64"]),
    ],
)
def test_an_axis_has_the_values_at_equal_distances(
    name: str, values: Sequence[Any], names: list[str]
) -> None:
    figure = sweeps.figure(pd.DataFrame(points("ops", [f"{name}={value}" for value in values])))
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == names


def test_each_setting_of_the_other_fields_is_a_line() -> None:
    both = points("ops", ["dataset.train_rows=9", "dataset.train_rows=90"])
    both += points("mine", ["dataset.train_rows=9", "dataset.train_rows=90"])
    frame = pd.DataFrame([*both, *points("objpert", ["ridge=1.0", "ridge=2.0"])])
    figure = sweeps.figure(frame)
    marked = [[line for line in ax.lines if line.get_marker() not in ("", "None")] for ax in figure.axes]
    assert [len(lines) for lines in marked] == [2, 2]
    assert "objpert" not in captions(figure)
    assert figure.get_suptitle().endswith(": train rows and ridge")
    assert legend_texts(figure)[2:] == [f"Objective perturbation, ridge = {ridge}" for ridge in (1, 2)]
    with pytest.raises(ValueError, match=r"x = 'rige' is not varied; did you mean ridge\?"):
        sweeps.figure(frame, x="rige")


def test_a_proven_epsilon_that_no_budgets_reach_has_no_panel() -> None:
    rows = points("ops", ["radius=1.0", "radius=5.0"], [1.0], violated="a condition")
    figure = sweeps.figure(pd.DataFrame(rows))
    (ax,) = figure.axes
    assert all(line.get_markerfacecolor() == "white" for line in ax.lines if line.get_marker() == "o")
    assert "No point has budgets on both sides of a proven ε of 1." in " ".join(captions(figure).split())
