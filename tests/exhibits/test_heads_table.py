"""The pages, numbers and figures of Tables 1 to 4 of ryffel2022 on made-up rows."""

import math
from pathlib import Path
from typing import Any

import head_rows
import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy import stats

from dplangevin.exhibits import dots, finetune_table, heads_figure, heads_table, table4

ROOT = Path(__file__).parents[2]
FEATURES = {
    "cifar10_resnet20": {"task": "Pictures", "network": "Small", "source": "Public."},
    "pneumonia_resnet20": {"task": "Lungs", "network": "Small", "source": "In 112 pixels."},
}


def exhibit(name: str) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/exhibit/{name}.yaml"))
    return found


def published(name: str) -> list[dict[str, Any]]:
    numbers: list[dict[str, Any]] = exhibit(name)["numbers"]["published"]
    return numbers


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.concat([head_rows.heads(), head_rows.pneumonia(), head_rows.curve()], ignore_index=True)


@pytest.fixture(scope="module")
def printed() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data/published/ryffel2022.csv")


def test_summary(frame: pd.DataFrame) -> None:
    table = heads_table.summary(frame, schedule="constant", published=published("ryffel2022_tab1"))
    assert len(table) == 2 * 6
    assert list(table.block) == ["published"] * 6 + ["equal"] * 6
    assert list(table.features[:6]) == ["cifar10_resnet20"] * 3 + ["pneumonia_resnet20"] * 3
    row = table[table.run.eq("dp_langevin_constant_published")].iloc[0]
    assert (row.accuracy, row.seeds) == (pytest.approx(0.65), head_rows.SEEDS)
    values = 0.65 + 0.001 * (np.arange(4) - 1.5)
    expected = stats.t.interval(0.95, 3, loc=0.65, scale=stats.sem(values))
    assert (row.low, row.high) == pytest.approx(expected)
    assert (row.paper_resnet18, row.paper_alexnet) == (0.703, 0.575)
    assert (row.epsilon_formula_epochs, row.epsilon_formula_steps) == (0.98, 26)
    assert (row.epsilon_tight, row.epsilon_last, row.epsilon_audit) == (11, 10.5, 3)
    lungs = table[table.features.str.startswith("pneumonia")]
    assert set(lungs.paper_resnet18) == {0.588, 0.593}
    assert lungs.paper_alexnet.isna().all()
    with pytest.raises(ValueError, match="'cosine'"):
        heads_table.summary(frame, schedule="cosine")
    twice = pd.concat([frame, frame[frame.run.eq("none_constant")]])
    with pytest.raises(ValueError, match="none_constant occurs twice"):
        heads_table.summary(twice, schedule="constant")


def test_an_attack_counts_by_its_weakest_and_a_price_by_its_highest(frame: pd.DataFrame) -> None:
    one = frame.seed.eq(1)
    moved = frame.assign(
        epsilon_audit=frame.epsilon_audit - 0.01 * one, epsilon_last=frame.epsilon_last + 0.5 * one
    )
    row = heads_table.summary(moved, schedule="constant").iloc[1]
    assert (row.epsilon_audit, row.epsilon_last) == (pytest.approx(2.99), pytest.approx(11.0))


def test_diverged_chains_are_left_out(frame: pd.DataFrame) -> None:
    lost = frame.run.eq("dp_sgd_constant_tight") & frame.seed.gt(0)
    gone = frame.run.eq("dp_sgd_constant_published")
    broken = frame.assign(accuracy=frame.accuracy.mask(lost | gone))
    table = heads_table.summary(broken, schedule="constant").set_index("run")
    assert set(table.seeds["dp_sgd_constant_tight"]) == {1}
    assert table.accuracy["dp_sgd_constant_published"].isna().all()
    page = heads_table.page(broken, schedule="constant", published=[], features=FEATURES)
    assert page.count("| one seed |") == 2
    assert page.count("| diverged |") == 2


@pytest.mark.parametrize(("name", "where"), [("ryffel2022_tab1", "Table 1"), ("ryffel2022_tab2", "Table 2")])
def test_published_numbers_are_those_of_the_paper(name: str, where: str, printed: pd.DataFrame) -> None:
    rows = printed[printed["where"].eq(where) & printed.quantity.str.startswith("accuracy_")]
    method = rows.quantity.str.removeprefix("accuracy_").replace("nonprivate", "none")
    expected = set(zip(rows.dataset, method, rows.value.astype(float).round(6), strict=True))
    found = {
        (f"{n['dataset']}_{n['network']}", n["method"], round(100 * n["accuracy"], 6))
        for n in published(name)
    }
    assert found == expected
    assert exhibit(name)["draw"]["published"] == published(name)


def test_table3_numbers_are_those_of_the_paper(printed: pd.DataFrame) -> None:
    found = {number["run"]: 100 * number["accuracy"] for number in published("ryffel2022_tab3")}
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    for run, where, quantity in (
        ("block_none", "Table 3", "accuracy_nonprivate"),
        ("block_dp_sgd", "Table 3", "accuracy_dp_sgd"),
        ("head_none", "Table 1", "accuracy_nonprivate"),
        ("head_dp_sgd", "Table 1", "accuracy_dp_sgd"),
    ):
        assert found[run] == pytest.approx(value[where, "cifar10_resnet18", quantity])


def cells(page: str, *starts: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith("| " + " | ".join(starts) + " |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page(frame: pd.DataFrame) -> None:
    page = heads_table.page(
        frame, schedule="constant", published=published("ryffel2022_tab1"), features=FEATURES, title="Title"
    )
    assert page.startswith("# Title\n")
    assert "constant step size" in page
    assert "Lungs: Small. In 112 pixels." in page
    assert "another network" in page
    assert "| attack on this row, at least |" in page
    assert "a pair of records that this problem admits" in page
    titles = [heads_table.BLOCKS[block] for block in ("published", "equal")]
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == titles
    row = cells(page, "Pictures", "Small", "DP-Langevin", "the authors'")
    assert row[4] == "η 0.018, λ 0.001, clip 15, σ 0.0022, batch 128, epochs 30"
    assert row[5:10] == ["70.30", "57.50", "65.00", "64.79 to 65.21", "4"]
    assert row[10:] == ["1e-5", "1", "0.98", "26", "11", "10.5", "3", ""]
    free = cells(page, "Lungs", "Small", "No privacy", "")
    assert free[5:8] == ["59.30", "", "76.00"]
    assert free[10:] == [""] * 8
    rule = next(line for line in page.splitlines() if line.startswith("| ---"))
    assert rule.split(" | ")[5:] == ["---:"] * 12 + ["---: |"]
    assert "nan" not in page
    assert "†" not in page


def test_failed_condition_is_marked(frame: pd.DataFrame) -> None:
    failed = frame.assign(violated=frame.run.eq("dp_sgd_constant_tight").map({True: "clipped", False: ""}))
    page = heads_table.page(failed, schedule="constant", published=[], features={})
    assert page.count("†") == 1 + 2
    figure = heads_figure.chart(failed, schedule="constant", published=[], features={})
    assert any("hollow" in text.get_text() for text in figure.legends[0].get_texts())


def test_chart_shows_every_epsilon_once(frame: pd.DataFrame) -> None:
    numbers = published("ryffel2022_tab1")
    figure = heads_figure.chart(frame, schedule="constant", published=numbers, features=FEATURES, title="T")
    left, right = figure.axes[:2]
    assert left.get_xlabel() == "test accuracy (%)"
    assert right.get_xlabel() == "ε at δ = 1e-5"
    assert figure.axes[3].get_xlabel() == "ε at δ = 1e-4"
    points = np.concatenate(
        [line.get_xdata() for line in right.lines if line.get_marker() not in ("", "None")]
    )
    wanted = heads_table.summary(frame, schedule="constant").query("features == 'cifar10_resnet20'")
    values = wanted[wanted.method.ne("none")][list(dots.EPSILONS)].to_numpy(float)
    assert sorted(points) == pytest.approx(sorted(values[np.isfinite(values)]))
    claims = [np.asarray(line.get_xdata()) for line in right.lines if line.get_color() == dots.CLAIM.colour]
    assert [claim.tolist() for claim in claims] == [[1.0, 1.0]]
    names = [text.get_text() for text in left.get_yticklabels()]
    assert len(names) == 6
    assert sum("formula" in name for name in names) == 1


def test_prices_beyond_the_axis_are_shown_at_its_end(frame: pd.DataFrame) -> None:
    far = frame.assign(epsilon_formula_steps=frame.epsilon_formula_steps * 1e5)
    figure = heads_figure.chart(far, schedule="constant", published=[], features={})
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert texts == [">", ">", ">"]
    assert figure.axes[1].get_xlim()[1] == pytest.approx(1.6 * dots.ENDS[1])


def test_finetuning() -> None:
    frame = head_rows.finetune()
    numbers = published("ryffel2022_tab3")
    table = finetune_table.summary(frame.iloc[::-1], published=numbers)
    assert list(table.trained) == ["head", "head", "block", "block"]
    assert table.set_index("run").accuracy["block_none"] == pytest.approx(0.7215)
    page = finetune_table.page(frame, published=numbers, network="Small")
    row = cells(page, "Last block and head", "Small", "DP-SGD")
    assert row[4:7] == ["74000", "67.80", "63.15"]
    assert row[8:] == ["4", "1e-5", "1", "1.9", "1"]
    figure = finetune_table.chart(frame, published=numbers, network="Small")
    low, high = figure.axes[1].get_xlim()
    assert low < 0.1
    assert high > 10
    with pytest.raises(ValueError, match="block_none occurs twice"):
        finetune_table.summary(pd.concat([frame, frame[frame.run.eq("block_none")]]))


def test_table4_prints_the_papers_ratios(printed: pd.DataFrame) -> None:
    """With d = classes and the orders of the configuration; with d = classes x features it does not."""
    rows = table4.summary(
        head_rows.heads().iloc[:0], paper=exhibit("ryffel2022_tab4")["numbers"]["paper"], features={}
    )
    value = printed[printed["where"].eq("Table 4")].set_index(["dataset", "quantity"]).value.astype(float)
    for dataset, row in zip(
        ("cifar10_resnet18", "cifar10_alexnet", "pneumonia_resnet18"), rows.to_dict("records"), strict=True
    ):
        assert row["beta"] == value[dataset, "smoothness"]
        assert float(f"{row['beta_over_precision']:.1e}") == value[dataset, "smoothness_over_convexity"]
        assert float(f"{row['ratio_classes']:.1e}") == row["ratio_published"] == value[dataset, "ratio"]
        assert row["ratio_theorem"] == pytest.approx(row["ratio_classes"] / row["features_dim"])
        proof = 0.5 * row["records"] ** 2 / ((1 + 2 * math.log(1e5)) * row["classes"] * row["features_dim"])
        assert row["ratio_proof"] == pytest.approx(proof / row["beta_over_precision"] ** 2)


@pytest.mark.parametrize(
    ("dataset", "row", "epoch"),
    [("cifar10_resnet18", 0, 27), ("cifar10_alexnet", 1, 30), ("pneumonia_resnet18", 2, 29)],
)
def test_table4_orders_are_those_of_the_formula_at_an_epoch(
    dataset: str, row: int, epoch: int, printed: pd.DataFrame
) -> None:
    """The best integer order of Theorem 3.1 at the authors' settings, K counted in epochs, up to the last one."""
    entry = exhibit("ryffel2022_tab4")["numbers"]["paper"][row]
    value = (
        printed[printed.dataset.eq(dataset)]
        .drop_duplicates("quantity")
        .set_index("quantity")
        .value.astype(float)
    )
    assert epoch <= value.epochs
    convexity = value.strong_convexity
    slope = 4 * value["clip"] ** 2 / (convexity * (value.records * value.noise_std) ** 2)
    slope *= -math.expm1(-convexity / 2 * value.step_size * epoch)
    log = -math.log(value.delta_used)
    assert min(range(2, 200), key=lambda order: slope * order + log / (order - 1)) == entry["order"]
    best = table4.best_order(slope + 2 * math.sqrt(slope * log), value.delta_used)
    assert best == pytest.approx(1 + math.sqrt(log / slope))


def test_table4_of_ours(frame: pd.DataFrame) -> None:
    paper = exhibit("ryffel2022_tab4")["numbers"]["paper"]
    table = table4.summary(frame, paper=paper, features=FEATURES)
    ours = table[table.source.eq("ours")].iloc[0]
    assert (ours.task, ours.beta_over_precision) == ("Pictures", pytest.approx(2e4))
    assert ours.ratio_classes == pytest.approx(50000**2 / (ours.order * 10) / 4e8)
    page = table4.page(frame, paper=paper, features=FEATURES)
    assert cells(page, "paper", "CIFAR-10", "ResNet-18")[6:12] == [
        "55",
        "0.001",
        "5.5e4",
        "26",
        "3.2e-3",
        "3.2e-3",
    ]
    assert cells(page, "ours", "Lungs", "Small")[10] == ""
    assert "nan" not in page
    figure = table4.chart(frame, paper=paper, features=FEATURES)
    assert figure.axes[0].get_xscale() == "log"
    assert len(figure.axes[0].get_yticklabels()) == 5


def test_curve(frame: pd.DataFrame) -> None:
    table = heads_figure.curve_summary(frame)
    assert len(table) == 4 * 4 + 1
    assert table.accuracy[table.method.eq("none")].tolist() == [pytest.approx(0.66)]
    figure = heads_figure.curve(frame, network="a small network")
    (ax,) = figure.axes
    assert ax.get_xlabel() == "tight ε (replace-one)"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "No privacy"
    assert len(labels) == 5
    assert "not drawn: 1 of 16 points" in figure.texts[0].get_text()
    own = frame[frame.run.eq("none_constant") & frame.features.eq("cifar10_resnet20")].assign(
        block="figure", accuracy=0.5, experiment="ryffel2022_curve"
    )
    again = heads_figure.curve_summary(pd.concat([frame, own], ignore_index=True))
    assert again.accuracy[again.method.eq("none")].tolist() == [0.5]
    with pytest.raises(ValueError, match="block 'figure'"):
        heads_figure.curve_summary(head_rows.heads())
