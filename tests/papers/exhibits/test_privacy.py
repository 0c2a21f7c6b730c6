"""Figures and the page about privacy alone, from fake rows and short analyses."""

import math

import numpy as np
import pandas as pd
import pytest
from drawing import call, captions, exhibit
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dplangevin.papers.analyses.li2019_fig1 import Budgets
from dplangevin.papers.analyses.li2019_fig2 import Sizes
from dplangevin.papers.analyses.stepsize import Curve, Setting
from dplangevin.papers.exhibits import privacy
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.stepsize import StepSchedule

NAN = math.nan


def row(**other: object) -> dict[str, object]:
    quote = {"paper": "li2019", "where": "Table 1", "statement": "s", "published": "x", "label": "MNIST"}
    prices = {"epsilon_formula": 0.4, "epsilon_add_remove": 0.2, "epsilon_replace_one": 5e6}
    rest = {"mechanism": "m", "chosen": NAN, "solved": NAN, "note": NAN, "formula": "f"}
    rest |= {"attack_runs": 5, "rescued": 0, "tight": 0, "epsilon_attack": 0.1, "epsilon_solved": 0.9}
    rest |= {"epsilon_attack_add_remove": NAN, "formula_adjacency": "add_remove"}
    return {"id": "a", **quote, "epsilon_claimed": 0.99, "delta": 1e-5, **prices, **rest, **other}


@pytest.fixture
def printed() -> pd.DataFrame:
    missing = dict.fromkeys(["mechanism", *privacy.PRICES, "epsilon_attack"], NAN) | {"note": "no settings"}
    drawn = row(**{**missing, "id": "b", "label": "GAN", "epsilon_claimed": 0.2})
    other = row(**{**missing, "id": "c", "label": "no epsilon", "paper": "wang2015", "epsilon_claimed": NAN})
    return pd.DataFrame([row(), drawn, other])


def test_chart_has_a_row_per_priced_promise_and_a_span_from_the_attack(printed: pd.DataFrame) -> None:
    figure = privacy.guarantees(printed, title="t")
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == [
        "Li et al. 2019",
        "MNIST",
        "holds in part: add/remove only",
    ]
    assert "settings are not stated (1): GAN." in captions(figure).replace("\n", " ")
    beyond = [line for line in ax.lines if line.get_marker() == "o"]
    assert [np.asarray(line.get_xdata()).tolist() for line in beyond] == [[privacy.LARGEST]]
    assert beyond[0].get_markerfacecolor() == "white"
    (attack,) = [line for line in ax.lines if line.get_color() == privacy.ATTACK.colour]
    assert np.asarray(attack.get_xdata()).tolist() == [0.1]
    spans = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if np.size(line.get_xdata()) == 2]
    assert [0.1, privacy.LARGEST] in spans


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"epsilon_replace_one": 0.5}, "holds"),
        ({"epsilon_add_remove": 2.0}, "open: too imprecise to tell"),
        ({"epsilon_add_remove": 2.0, "epsilon_attack": 1.0}, "fails"),
        ({"epsilon_add_remove": 2.0, "epsilon_attack": 1.0, "rescued": 1}, "holds in part: other settings"),
    ],
)
def test_chart_says_the_verdict_in_words(other: dict[str, float], words: str) -> None:
    (ax,) = privacy.guarantees(pd.DataFrame([row(**other)]), title="t").axes
    assert ax.texts[-1].get_text() == words


def test_a_span_without_an_attack_begins_at_the_left_edge() -> None:
    (ax,) = privacy.guarantees(pd.DataFrame([row(epsilon_attack=NAN)]), title="t").axes
    spans = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if np.size(line.get_xdata()) == 2]
    assert [ax.get_xlim()[0], privacy.LARGEST] in spans
    assert privacy.ATTACK.colour not in [line.get_color() for line in ax.lines]


def test_table_lists_numbers_and_reasons(printed: pd.DataFrame) -> None:
    page = privacy.guarantees_page(printed, title="Promises")
    assert page.startswith("# Promises\n")
    assert (
        "| MNIST | Table 1 | 0.99 | 1e-5 | 0.4 | 0.2 | 5e6 | 0.1 | **holds in part: add/remove only** |"
        in page
    )
    assert "| GAN | Table 1 | 0.2 | 1e-5 |  |  |  |  | **open: not testable** |" in page
    assert "- GAN: no settings." in page
    assert "## Wang et al. 2015" in page


STEPS = [1, 10, 100, 1000]
PANELS = {"cifar10_resnet18": "CIFAR-10, ResNet-18", "pneumonia_resnet18": "Pneumonia"}


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    """Two settings, batches 1 and 128 and full; with batches of one the proofs lie beyond the axis."""
    rows = []
    for setting in (*PANELS, "cifar10_alexnet"):
        fixed = {"setting": setting, "schedule": "constant", "records": 50000, "epochs": 30.0, "delta": 1e-5}
        for batch in (1, 128, 50000):
            for i, quantity in enumerate(privacy.STEP_CURVES):
                proof = quantity in ("all_iterates", "last_iterate")
                for steps in STEPS:
                    price = 1e5 if batch == 1 and proof else 0.1 * (i + 1) * steps**0.5
                    at = {"kind": "curve", "batch": batch, "steps": steps}
                    rows.append({**fixed, **at, "quantity": quantity, "epsilon": price})
        published = {"kind": "published", "batch": 128, "steps": 700, "quantity": "theorem", "epsilon": 26.0}
        rows.append({**fixed, **published})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def pair() -> pd.DataFrame:
    x = np.linspace(-1, 1, 50)
    rows = [("density", name, t, np.exp(-t * t), "K = 1") for name in ("first", "second") for t in x]
    rows += [
        ("renyi", name, k, f * k, "order 2")
        for name, f in (("claimed", 0.1), ("exact", 7.0))
        for k in (1, 10)
    ]
    rows += [("profile", "claimed", 1e-5, 2.25, "K = 1"), ("profile", "exact", 1e-5, 38.5, "K = 1")]
    rows += [("profile", "exact", 1e-2, 0.0, "K = 1"), ("profile", "audit", 1e-5, 8.125, "K = 1, 9 runs")]
    rows += [
        ("minibatches", f"R {name}", 2.0, value, "n = 9, σ = 1")
        for name, value in (("promised", 0.5), ("exact", 3.0))
    ]
    rows += [("hypotheses", "smooth", 1.0, 1.0, "holds"), ("hypotheses", "step size", 1.0, 2.0, "fails")]
    return pd.DataFrame(rows, columns=["kind", "quantity", "x", "value", "note"])


def test_exhibit_of_the_pair_draws(pair: pd.DataFrame) -> None:
    cfg = exhibit("ryffel2022_counterexample")
    assert call(cfg, "draw", pair)._suptitle.get_text() == cfg.title


def test_last_iterate_leads_with_the_batch_of_the_authors(prices: pd.DataFrame) -> None:
    figure = privacy.last_iterate(prices, panels=PANELS)
    first, second = PANELS.values()
    sizes = [(first, "batch 128"), (second, "batch 128"), (first, "batch 1"), (first, "full batch")]
    titles = [f"{label}, {size}, δ = 1e-5" for label, size in sizes]
    assert [ax.get_title() for ax in figure.axes] == titles
    text = captions(figure).replace("\n", " ")
    assert "exact ε of the last iterate for one pair" in text
    assert "The CSV has the other batch sizes" in text
    main, _, one, _ = figure.axes
    assert [text.get_text() for text in one.texts] == ["▲ proven ε above 10000:\nall iterates, last iterate"]
    assert tuple(0.1 * np.sqrt(STEPS)) in [tuple(np.atleast_1d(line.get_ydata())) for line in main.lines]
    assert len(one.lines) == len(privacy.STEP_CURVES) - 2 + 1  # and their number of epochs
    stars = [
        [np.atleast_1d(line.get_xdata())[0] for line in ax.lines if line.get_marker() == "*"]
        for ax in figure.axes
    ]
    assert stars == [[700], [700], [], []]  # the printed ε is at the authors' batch only


def test_last_iterate_writes_each_epsilon_at_the_steps_of_the_authors(prices: pd.DataFrame) -> None:
    at = prices[prices.kind.eq("curve") & prices.batch.eq(128) & prices.steps.eq(1000)].assign(steps=700)
    main, *_ = privacy.last_iterate(pd.concat([prices, at]), panels=PANELS).axes
    curves = at[at.setting.eq("cifar10_resnet18")].set_index("quantity").epsilon
    wanted = [f"{curves[name]:.3g}" for name in ("theorem", "last_iterate", "audit")]
    assert [text.get_text() for text in main.texts] == [*wanted, "1"]


def test_pair_s_numbers_are_in_the_caption(pair: pd.DataFrame) -> None:
    text = captions(privacy.counterexample(pair))
    assert "R promised 0.1, exact 7" in text
    assert "attack is on the theorem's hypotheses" in text
    assert "promised 2.25, exact 38.5, attack at least 8.12 (K = 1, 9 runs)" in text
    assert "1 of 2" in text
    assert "m = 2, n = 9: R 0.5, exact 3." in text


def test_an_epsilon_of_zero_is_not_drawn(pair: pd.DataFrame) -> None:
    right = privacy.counterexample(pair).axes[2]
    assert sorted(y for line in right.lines for y in np.atleast_1d(line.get_ydata())) == [2.25, 8.125, 38.5]


FEW, MANY = (Curve(Li2019(orders, "printed"), "add_remove") for orders in (32, 256))
CURVES = {"moments_32": FEW, "moments_256": MANY, "tight": MANY, "tight_replace_one": MANY}


def rows_of(analysis: Budgets | Sizes) -> pd.DataFrame:
    """All rows of an analysis."""
    return pd.DataFrame([line for unit in analysis.units() for line in analysis.rows(unit, 0)])


@pytest.fixture(scope="module")
def budget_rows() -> pd.DataFrame:
    published = {"decreasing": 0.103, "wang2015": 1.54e-6}
    both: dict[str, list[StepSchedule]] = {name: ["decreasing", "fixed"] for name in CURVES}
    panels = {"budget": both, "records": both, "batch": both}
    setting = Setting(5000, 50, 1000, 1.0, 1e-5)
    return rows_of(
        Budgets(CURVES, panels, setting, [0.1, 0.4, 1.0], 0.1, published, [1000, 2000], [0.1, 1.0], [32, 64])
    )


@pytest.fixture(scope="module")
def size_rows() -> pd.DataFrame:
    curves = {name: CURVES[name] for name in ("tight", "moments_256", "moments_32")}
    return rows_of(Sizes(curves, [0.1, 0.5, 1.0], [1000, 2000], 1000, [0.1, 1.0], 50))


def drawn(ax: Axes, colour: str, line: str) -> np.ndarray:
    """(2, K) the points of the one curve of this look."""
    curves = [c for c in ax.lines if (c.get_color(), c.get_linestyle()) == (colour, line)]
    (curve,) = [c for c in curves if np.size(c.get_xdata())]
    return np.array(curve.get_data())


def legend_is_clear_of_the_panels(figure: Figure) -> bool:
    """Whether no legend overlaps the data area of any panel."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legends = [*figure.legends, *(legend for ax in figure.axes if (legend := ax.get_legend()))]
    boxes = [legend.get_window_extent(canvas.get_renderer()) for legend in legends]
    return bool(boxes) and not any(
        box.overlaps(ax.get_window_extent()) for box in boxes for ax in figure.axes
    )


def test_curves_are_the_rows_and_end_where_the_accountant_does(budget_rows: pd.DataFrame) -> None:
    ax = privacy.step_size_budgets(budget_rows).axes[0]
    tight = budget_rows[budget_rows.panel.eq("budget") & budget_rows.curve.eq("tight")]
    for schedule, line in privacy.SCHEDULES.items():
        rows = tight[tight.schedule.eq(schedule)][["epsilon", "step_size"]]
        assert np.array_equal(drawn(ax, privacy.ACCOUNTANTS["tight"].colour, line), rows.T)
    assert drawn(ax, privacy.ACCOUNTANTS["moments_32"].colour, "-")[0].min() > math.log(1e5) / 32
    (shade,) = ax.patches
    assert shade.get_extents().transformed(ax.transData.inverted()).x1 == pytest.approx(math.log(1e5) / 32)
    (stars,) = [line for line in ax.lines if line.get_marker() == "*"]
    assert np.array(stars.get_data()).T.tolist() == [[0.1, 0.103], [0.1, 1.54e-6]]
    assert {text.get_text() for text in ax.texts} == {"0.103", "1.54e-6"}


@pytest.mark.slow
def test_labels_and_legends(budget_rows: pd.DataFrame, size_rows: pd.DataFrame) -> None:
    for figure in (privacy.step_size_budgets(budget_rows), privacy.step_size_sizes(size_rows)):
        assert all(ax.get_xlabel() for ax in figure.axes[-2:])
        assert figure.axes[0].get_ylabel().startswith("largest ")
        assert all(ax.get_xscale() == ax.get_yscale() == "log" for ax in figure.axes)
        assert legend_is_clear_of_the_panels(figure)


def test_one_curve_for_each_size(size_rows: pd.DataFrame) -> None:
    figure = privacy.step_size_sizes(size_rows)
    for ax, curve in zip(figure.axes[::2], ("tight", "moments_256"), strict=True):
        solid = [line for line in ax.lines if line.get_linestyle() == "-"]
        assert len(solid) == 2
        rows = size_rows[size_rows.curve.eq(curve) & size_rows.schedule.eq("decreasing")]
        drawn_here = rows[rows.panel.eq("records") & rows.reachable.eq(1)]
        for line, (_, here) in zip(solid, drawn_here.groupby("records"), strict=True):
            assert np.asarray(line.get_ydata()) == pytest.approx(
                (here.step_size * here.lipschitz**2).to_numpy()
            )
        (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
        assert np.size(crosses.get_xdata()) == (rows.panel.eq("lipschitz") & rows.reachable.eq(1)).sum()
