"""The page of attack over proof, from a few tasks of the analysis at small size."""

from dataclasses import replace

import pandas as pd
import pytest
from hydra.utils import instantiate

from dplangevin.papers.analyses.brackets import Brackets
from dplangevin.pipeline.config import load

TASKS = ["outpert 1", "ops 1", "dp_sgd 1", "pate 1", "hybrid 1"]


@pytest.mark.slow
def test_no_attack_is_above_its_proof_and_rows_are_the_same_again() -> None:
    found: Brackets = instantiate(load().analysis.brackets, _convert_="all")
    analysis = replace(found, runs=20_000, epsilons=(1.0,))
    assert set(TASKS) <= set(analysis.units())
    frame = pd.DataFrame([row for unit in TASKS for row in analysis.rows(unit, 1)])
    assert (frame.epsilon_attack <= frame.epsilon_proven).all()
    assert frame.epsilon_proven.between(0.99, 1.0).all()
    assert frame.one_dimensional.tolist() == [1, 0, 1, 0, 0]
    assert frame.attacked.tolist() == ["hypotheses"] * 4 + ["parts"]
    assert frame.runs.tolist() == [20_000, 0, 20_000, 0, 20_000]
    assert analysis.rows("dp_sgd 1", 1)[0] == frame.iloc[2].to_dict()
    assert analysis.rows("dp_sgd 1", 2)[0]["epsilon_attack"] != frame.epsilon_attack[2]
