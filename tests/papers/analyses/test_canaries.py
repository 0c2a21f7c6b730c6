"""Canaries in the training of an experiment's network: its settings, and rows at small size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from composed import composed
from drawing import CONF
from hydra.utils import instantiate

from dplangevin.papers.analyses.canaries import Canaries
from dplangevin.pipeline import plan

CFG = composed()
ANALYSIS: Canaries = instantiate(CFG.analysis.canaries, _convert_="all")
RUNS = {"dp_sgd MNIST": "tanh_dp_sgd", "dp_sgld_li2019 MNIST": "tanh_dp_sgld"}


def test_methods_and_network_are_those_of_the_experiment() -> None:
    """DP-SGLD keeps one iterate here, because the attacker sees all of them anyway."""
    configs: dict[str, Any] = {run.name: run.config for run in plan.runs(CFG, "li2019_tab1", "mnist")}
    assert set(ANALYSIS.methods) == set(RUNS)
    for name, run in RUNS.items():
        method: Any = ANALYSIS.methods[name]
        assert replace(method, samples=1) == replace(instantiate(configs[run]), samples=1)
    assert CFG.analysis.canaries.problem == CFG.problem.tanh
    assert CFG.experiment.li2019_tab1.noise == "float32"
    assert ANALYSIS.guesses <= ANALYSIS.canaries


def test_rows_are_those_of_the_brackets_and_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small: Canaries = instantiate(composed("scale=smoke").analysis.canaries, _convert_="all")
    rows = [row for unit in small.units() for row in small.rows(unit, 1)]
    assert [row["method"] for row in rows] == list(RUNS)
    assert list(rows[0]) == list(pd.read_csv(CONF.parent / "results/analyses/brackets.csv"))
    for row in rows:
        assert 0 <= row["epsilon_attack"] <= row["epsilon_proven"] <= 4.0
        assert row["epsilon_proven"] > 3.9
        assert (row["attacked"], row["runs"], row["neighbours"]) == ("problem", 1, "add_remove")
        assert "of 10 guesses" in row["statistic"]
    assert small.rows(small.units()[0], 1) == rows[:1]


def test_no_committed_attack_is_above_its_proof() -> None:
    rows = pd.read_csv(CONF.parent / "results/analyses/canaries.csv")
    assert [f"{row.method} {row.epsilon_asked:g}" for row in rows.itertuples()] == ANALYSIS.units()
    assert (rows.epsilon_attack <= rows.epsilon_proven).all()
    assert rows.epsilon_proven.div(rows.epsilon_asked).between(0.99, 1.0).all()
