"""Canaries in the training of an experiment's network: its settings, and rows at small size."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from composed import composed, parameters
from drawing import CONF
from hydra.utils import instantiate
from scipy.stats import beta

from dplangevin.papers.analyses.canaries import Canaries
from dplangevin.pipeline import plan

# analysis -> experiment, problem, and the runs of its methods
RUNS = {
    "canaries": (
        "li2019_tab1",
        "tanh",
        {"dp_sgd MNIST": "tanh_dp_sgd", "dp_sgld_li2019 MNIST": "tanh_dp_sgld"},
    ),
    "canaries_gan": (
        "li2019_gan",
        "gan",
        {"dp_sgd GAN on MNIST": "dp_sgd", "dp_sghmc_li2019 GAN on MNIST": "dp_sghmc"},
    ),
}


def analysis(name: str, *overrides: str) -> Canaries:
    cfg = composed(*overrides) if overrides else parameters()
    found: Canaries = instantiate(cfg.analysis[name], _convert_="all")
    return found


@pytest.mark.parametrize("name", RUNS)
def test_methods_and_network_are_those_of_the_experiment(name: str) -> None:
    """A chain keeps one iterate here, because the attacker sees all of them anyway."""
    experiment, problem, runs = RUNS[name]
    cfg = parameters()
    configs: dict[str, Any] = {run.name: run.config for run in plan.runs(cfg, experiment, "mnist")}
    found = analysis(name)
    assert set(found.methods) == set(runs)
    for method, run in runs.items():
        own: Any = found.methods[method]
        assert replace(own, samples=1) == replace(instantiate(configs[run]), samples=1)
    assert cfg.analysis[name].problem == cfg.problem[problem]
    assert cfg.experiment[experiment].noise == "float32"
    assert found.guesses <= found.canaries


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_rows_are_those_of_the_brackets_and_the_same_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = analysis(name, "scale=smoke")
    rows = [row for unit in small.units() for row in small.rows(unit, 1)]
    assert [row["method"] for row in rows] == list(RUNS[name][2])
    assert list(rows[0]) == list(pd.read_csv(CONF.parent / "results/analyses/brackets.csv"))
    for row in rows:
        assert 3.9 < row["epsilon_proven"] <= 4.0
        assert row["ratio"] == row["epsilon_attack"] / row["epsilon_proven"]
        assert (row["attacked"], row["runs"], row["neighbours"]) == ("problem", 1, "add_remove")
        assert "of 10 guesses" in row["statistic"]
    assert small.rows(small.units()[0], 1) == rows[:1]


@pytest.mark.parametrize("name", RUNS)
def test_a_committed_attack_is_the_bound_of_its_guesses(name: str) -> None:
    """That of Clopper and Pearson on the chance of a right guess; delta takes a little more."""
    rows = pd.read_csv(CONF.parent / f"results/analyses/{name}.csv")
    assert [f"{row.method} {row.epsilon_asked:g}" for row in rows.itertuples()] == analysis(name).units()
    for row in rows.to_dict("records"):
        right, guesses = map(int, re.findall(r"(\d+) of (\d+) guesses", row["statistic"])[0])
        chance = beta.ppf(1 - row["confidence"], right, guesses - right + 1)
        assert row["epsilon_attack"] == pytest.approx(max(0.0, math.log(chance / (1 - chance))), abs=0.01)
    assert rows.epsilon_proven.div(rows.epsilon_asked).between(0.99, 1.0).all()
