"""The pages and numbers of trained networks and heads, and of the claims, from fake rows."""

import math
from functools import partial
from typing import Any

import fake_results
import pandas as pd
import pytest
from drawing import CONF, exhibit
from fake_results import finals
from omegaconf import OmegaConf
from scipy import stats

from dplangevin.papers.claims import ryffel2022
from dplangevin.papers.exhibits import tables
from dplangevin.reporting.read import by_seed

KEYS = ["dataset", "problem", "block", "run", "method", "epsilon"]


def numbers(name: str, key: str = "published") -> list[dict[str, Any]]:
    """The printed numbers that the exhibit's numbers are put beside."""
    entries: Any = OmegaConf.to_container(exhibit(name).numbers[key])
    return entries


@pytest.fixture(scope="module")
def trained() -> pd.DataFrame:
    return by_seed(finals())


def test_summary_over_seeds(trained: pd.DataFrame) -> None:
    table = tables.over_seeds(trained, keys=KEYS)

    def row(run: str) -> pd.Series:
        return table[table.run.eq(run) & table.epsilon.eq(8.0)].iloc[0]

    assert len(table) == len(trained.groupby(["run", "epsilon"]))
    three = row("tanh_dp_sgd")
    assert (three.accuracy, three.sd, three.seeds) == (pytest.approx(0.983), pytest.approx(0.001), 3)
    assert three.high - three.accuracy == pytest.approx(stats.t.ppf(0.975, 2) * 0.001 / math.sqrt(3))
    one = row("li2019_dp_sgd")
    assert one.accuracy == pytest.approx(0.97)
    assert math.isnan(one.sd)
    assert math.isnan(one.low)


@pytest.mark.parametrize(("name", "dataset"), [("li2019_tab1", "mnist"), ("li2019_tab1_svhn", "svhn")])
def test_published_numbers_are_those_of_the_paper(name: str, dataset: str) -> None:
    """Accuracy and budget of every number in the configuration, except that of another paper."""
    printed = pd.read_csv(CONF.parent / "data/published/li2019.csv")
    rows = printed[printed["where"].eq("Table 1") & printed.dataset.eq(dataset)]
    rows = rows[rows.quantity.str.startswith("accuracy")]
    budget = rows.note.fillna("").str.extract(r"eps ([\d.]+)")[0].astype(float)
    expected = set(zip(rows.value.astype(float), budget.fillna(0.0), strict=True))
    of_paper = [n for n in numbers(name) if not n.get("source")]
    assert {(n["accuracy_paper"], n.get("epsilon_claimed", 0.0)) for n in of_paper} == expected
    for number in of_paper:
        where = number["where"]
        assert where.get("epsilon", number.get("epsilon_claimed")) == number.get("epsilon_claimed")


def test_diverged_seeds_are_left_out_and_said_so(trained: pd.DataFrame) -> None:
    one = trained.run.eq("tanh_dp_sgd") & trained.epsilon.eq(0.5)
    few = trained.run.eq("tanh_dp_sgd") & trained.epsilon.eq(8.0) & trained.seed.gt(0)
    broken = trained.assign(accuracy=trained.accuracy.mask(one | few))
    numbers = partial(tables.over_seeds, keys=KEYS)
    columns = {"ours": "{accuracy:percent}", "95 %": ["{low:percent} to {high:percent}", "{seeds:few}"]}
    page = tables.page(
        broken, parts=[{"numbers": numbers, "where": {"run": "tanh_dp_sgd"}, "columns": columns}]
    )
    assert "|  | diverged |" in page
    assert page.count("| 1 seed |") == 1
    assert "nan" not in page


def test_parts_of_a_page() -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y"], "b": [1.0, 2.0, math.nan], "violated": ["", "p; q", "q"]})
    rows = {"columns": {"b": "{b:number}{violated:mark}", "c": "{b:number}"}, "optional": ["c"]}
    parts: list[dict[str, Any]] = [
        {"text": ["From {b:span}.", "†: {violated:listed}.", "{b:number} of {a}"]},
        {"by": "a", "headings": {"y": "Y", "x": "X", "z": "Z"}, "parts": [rows]},
        {"by": {"a": "{a}"}, "across": "{violated}", "crossed": "{b:number}", "where": {"a": "x"}},
        {"each": "- {a}: {more}", "join": {"a": {"x": {"more": "of x"}}}, "by": "a"},
        {"text": "none", "query": "b > 9"},
    ]
    assert tables.page(frame, parts=parts, title="t").split("\n\n") == [
        "# t",
        "From 1 to 2.\n†: p; q.\n1 of x",
        "## Y",
        "| b |\n|---|\n| † |",
        "## X",
        "| b | c |\n|---|---|\n| 1 | 1 |\n| 2† | 2 |",
        "| a |  | p; q |\n| --- | ---: | ---: |\n| x | 1 | 2 |",
        "- x: of x\n- y: \n",
    ]


@pytest.fixture(scope="module")
def printed() -> pd.DataFrame:
    return pd.read_csv(CONF.parent / "data/published/ryffel2022.csv")


@pytest.mark.parametrize(("schedule", "where"), [("constant", "Table 1"), ("decreasing", "Table 2")])
def test_published_accuracies_are_those_of_the_paper(
    schedule: str, where: str, printed: pd.DataFrame
) -> None:
    rows = printed[printed["where"].eq(where) & printed.quantity.str.startswith("accuracy_")]
    method = rows.quantity.str.removeprefix("accuracy_").replace(
        {"nonprivate": "sgd", "dp_langevin": "dp_sgld_ryffel2022"}
    )
    expected = set(zip(rows.dataset, method, rows.value.astype(float).round(6), strict=True))
    found = {
        (
            n["where"]["dataset"][0],
            n["where"]["method"],
            round(100 * n.get("paper_resnet18", n.get("paper_alexnet", 0.0)), 6),
        )
        for n in numbers("ryffel2022_tab1")
        if n["where"]["schedule"] == schedule
    }
    assert found == expected


def test_table3_numbers_are_those_of_the_paper(printed: pd.DataFrame) -> None:
    found = {number["where"]["run"]: 100 * number["paper_resnet18"] for number in numbers("ryffel2022_tab3")}
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    for run, where, quantity in (
        *((f"{part}_none", "Table 3", "accuracy_nonprivate") for part in ("stage", "block")),
        *((f"{part}_dp_sgd", "Table 3", "accuracy_dp_sgd") for part in ("stage", "block")),
        ("head_none", "Table 1", "accuracy_nonprivate"),
        ("head_dp_sgd", "Table 1", "accuracy_dp_sgd"),
    ):
        assert found[run] == pytest.approx(value[where, "cifar10_resnet18", quantity])


def test_table4_prints_the_papers_ratios(printed: pd.DataFrame) -> None:
    """With d = classes and the orders of the configuration; with d = classes x features it does not."""
    rows = ryffel2022.growth_ratios(
        fake_results.heads().iloc[:0], paper=numbers("ryffel2022_tab4", "paper"), features={}
    )
    value = printed[printed["where"].eq("Table 4")].set_index(["dataset", "quantity"]).value.astype(float)
    for dataset, row in zip(
        ("cifar10_resnet18", "cifar10_alexnet", "pneumonia_resnet18"), rows.to_dict("records"), strict=True
    ):
        assert row["smoothness"] == value[dataset, "smoothness"]
        assert float(f"{row['condition']:.1e}") == value[dataset, "smoothness_over_convexity"]
        assert float(f"{row['ratio_classes']:.1e}") == row["ratio_published"] == value[dataset, "ratio"]
        features = row["parameters"] / row["classes"]
        assert row["ratio_theorem"] == pytest.approx(row["ratio_classes"] / features)
        proof = 0.5 * row["records"] ** 2 / ((1 + 2 * math.log(1e5)) * row["parameters"])
        assert row["ratio_proof"] == pytest.approx(proof / row["condition"] ** 2)


@pytest.mark.parametrize(
    ("dataset", "row", "epoch"),
    [("cifar10_resnet18", 0, 27), ("cifar10_alexnet", 1, 30), ("pneumonia_resnet18", 2, 29)],
)
def test_table4_orders_are_those_of_the_formula_at_an_epoch(
    dataset: str, row: int, epoch: int, printed: pd.DataFrame
) -> None:
    """The best integer order of Theorem 3.1 at the authors' settings, K counted in epochs, up to the last one."""
    entry = numbers("ryffel2022_tab4", "paper")[row]
    rows = printed[printed.dataset.eq(dataset)].drop_duplicates("quantity")
    value = rows.set_index("quantity").value.astype(float)
    assert epoch <= value.epochs
    convexity = value.strong_convexity
    slope = 4 * value["clip"] ** 2 / (convexity * (value.records * value.noise_std) ** 2)
    slope *= -math.expm1(-convexity / 2 * value.step_size * epoch)
    log = -math.log(value.delta_used)
    assert min(range(2, 200), key=lambda order: slope * order + log / (order - 1)) == entry["order"]
