"""The page and the numbers of Table 1 on made-up runs."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy import stats
from training_rows import final, finals

from dplangevin.exhibits import training_table

ROOT = Path(__file__).parents[2]
NETWORKS = {"tanh": "Small", "li2019": "Paper's"}


def exhibit(name: str) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/exhibit/{name}.yaml"))
    return found


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.concat(finals().values(), ignore_index=True)


@pytest.fixture(scope="module")
def published() -> list[dict[str, Any]]:
    return exhibit("li2019_tab1")["numbers"]["published"]


def test_summary_over_seeds(frame: pd.DataFrame) -> None:
    table = training_table.summary(frame)

    def row(run: str) -> pd.Series:
        return table[table.run.eq(run) & table.epsilon.eq(8.0)].iloc[0]

    assert len(table) == len(frame.groupby(["run", "epsilon"]))
    three = row("tanh_dp_sgd")
    assert (three.accuracy, three.sd, three.seeds) == (pytest.approx(0.983), pytest.approx(0.001), 3)
    assert three.high - three.accuracy == pytest.approx(stats.t.ppf(0.975, 2) * 0.001 / math.sqrt(3))
    one = row("li2019_dp_sgd")
    assert one.accuracy == pytest.approx(0.97)
    assert math.isnan(one.sd)
    assert math.isnan(one.low)
    assert list(table.block.unique()) == list(training_table.BLOCKS)
    with pytest.raises(ValueError, match="tanh_sgd occurs twice"):
        training_table.summary(pd.concat([frame, frame[frame.run.eq("tanh_sgd")]]))


def test_published_numbers_stand_beside_their_rows(
    frame: pd.DataFrame, published: list[dict[str, Any]]
) -> None:
    table = training_table.summary(frame, published=published)
    beside = table[table.accuracy_paper.notna()].set_index(["run", "epsilon"]).accuracy_paper
    assert beside["tanh_dp_sgd", 0.5] == 0.9
    assert beside["li2019_dp_sgd", 8.0] == 0.97
    assert beside["li2019_pate", 1.97] == 0.9851
    assert beside["tanh_dp_sgld_printed", 0.99] == beside["tanh_dp_sgld", 0.99] == 0.9921
    assert beside["tanh_dp_sgd_reference", 2.93] == 0.981
    assert (
        beside[[run in ("tanh_sgd", "tanh_sgld", "li2019_sgd") for run, _ in beside.index]].eq(0.9934).all()
    )
    assert "tanh_dp_sgld_decreasing" not in beside.index.get_level_values("run")
    assert len(beside) == 4 + 4 + 1 + 4 + 2  # not private, at .99, reference, DP-SGD, PATE


@pytest.mark.parametrize("name", ["li2019_tab1", "li2019_tab1_svhn", "li2019_curves", "li2019_reliability"])
def test_exhibits_name_runs_that_there_are(name: str) -> None:
    found = exhibit(name)
    experiment = OmegaConf.load(ROOT / f"conf/training/{Path(found['source']).name}.yaml")
    runs = [str(run) for run in experiment.runs]
    assert set(found["runs"]) <= set(runs)
    if found["part"] == "final":
        assert sorted(found["runs"]) == sorted(runs)
        assert {run.network for run in experiment.runs.values()} == set(found["draw"]["networks"])
        for number in found["numbers"]["published"]:
            wanted = number["where"].get("run", [])
            assert set(wanted if isinstance(wanted, list) else [wanted]) <= set(runs)


@pytest.mark.parametrize(("name", "dataset"), [("li2019_tab1", "mnist"), ("li2019_tab1_svhn", "svhn")])
def test_published_numbers_are_those_of_the_paper(name: str, dataset: str) -> None:
    """Accuracy and budget of every number in the configuration, except that of another paper."""
    printed = pd.read_csv(ROOT / "data/published/li2019.csv")
    rows = printed[printed["where"].eq("Table 1") & printed.dataset.eq(dataset)]
    rows = rows[rows.quantity.str.startswith("accuracy")]
    budget = rows.note.fillna("").str.extract(r"eps ([\d.]+)")[0].astype(float)
    expected = set(zip(rows.value.astype(float), budget.fillna(0.0), strict=True))
    numbers = [n for n in exhibit(name)["numbers"]["published"] if "source" not in n]
    assert {(n["accuracy"], n.get("epsilon", 0.0)) for n in numbers} == expected
    for number in numbers:
        where = number["where"]
        assert where.get("epsilon", number.get("epsilon")) == number.get("epsilon")


def cells(page: str, start: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_page(frame: pd.DataFrame, published: list[dict[str, Any]]) -> None:
    names = {"tanh_dp_sgld_printed": "As printed"}
    page = training_table.page(frame, published=published, networks=NETWORKS, names=names, title="Title")
    assert page.startswith("# Title\n")
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(
        training_table.BLOCKS.values()
    )
    row = cells(page, "| Small | As printed |")
    assert row[2] == "η 0.3, batch 128, epochs 20, clip 0.3, σ 3.18"
    assert row[3:] == ["99.21", "90.20", "0.10", "3", "0.99", "0.36", "0.22", "0.41"]
    assert cells(page, "| Paper's | SGD, not private |")[3:] == [
        "99.34",
        "99.31",
        "",
        "1 seed",
        "",
        "∞",
        "∞",
        "∞",
    ]
    assert cells(page, "| Small | 0.5 |")[2:] == ["94.00 ± 0.10", "95.00 ± 0.10 [90.00]", "70.00 ± 0.10"]
    assert cells(page, "| Paper's | 1.97 |")[2:] == ["", "", "95.50 (1 seed) [98.51]"]
    budgets = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| Paper's | ")]
    assert [b for b in budgets if b[0].isdigit()] == ["0.5", "0.99", "1.97", "8"]
    assert "answered 250, ε that depends on the data 0.4" in page
    assert "Papernot" in page
    assert "δ = 1e-5" in page
    assert "nan" not in page
    assert "†" not in page


def test_failed_condition_is_marked(frame: pd.DataFrame) -> None:
    failed = frame.assign(violated=frame.run.eq("tanh_dp_sgd").map({True: "too few steps", False: ""}))
    page = training_table.page(failed, published=[], networks=NETWORKS)
    assert page.count("†") == 1 + 2 * 5  # the note, and five budgets in two tables


def test_block_without_rows_is_left_out() -> None:
    page = training_table.page(final("svhn_dp_sgld", [0.8], [2.97], seeds=1), published=[], networks={})
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## At equal audited ε"]
    assert "| svhn | DP-SGLD |" in page


def test_whole_settings_are_not_rounded() -> None:
    row = pd.Series(
        {"step": 0.034567, "batch": 1024.0, "epochs": 50.0, "clip": 0.1, "noise_multiplier": 1.5061}
    )
    assert training_table.settings(row) == "η 0.0346, batch 1024, epochs 50, clip 0.1, σ 1.51"
