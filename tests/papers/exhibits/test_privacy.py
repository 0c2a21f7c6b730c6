"""Promises with their verdicts, from fake rows."""

import math

import pandas as pd
import pytest

from dplangevin.papers.exhibits import privacy

NAN = math.nan
ROW = {
    "id": "a", "paper": "li2019", "where": "Table 1", "statement": "s", "published": "x", "label": "MNIST",
    "epsilon_claimed": 0.99, "delta": 1e-5, "epsilon_formula": 0.4, "epsilon_add_remove": 0.2,
    "epsilon_replace_one": 5e6, "epsilon_attack": 0.1, "mechanism": "m", "chosen": NAN, "solved": NAN, "note": NAN,
    "formula": "f", "attack_runs": 5, "rescued": 0, "tight": 0, "epsilon_solved": 0.9, "violated": NAN,
    "epsilon_attack_add_remove": NAN, "formula_adjacency": "add_remove",
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "word", "known"),
    [
        ({}, "holds in part: add/remove only", 0.1),
        ({"epsilon_replace_one": 0.5}, "holds", 0.1),
        ({"epsilon_add_remove": 2.0}, "open: too imprecise to tell", 0.1),
        ({"epsilon_add_remove": 2.0, "epsilon_attack": 1.0}, "fails", 1.0),
        (
            {"epsilon_add_remove": 2.0, "epsilon_attack": 1.0, "rescued": 1},
            "holds in part: other settings",
            1.0,
        ),
        ({"epsilon_attack": NAN}, "holds in part: add/remove only", privacy.SMALLEST / 1.5),
    ],
)
def test_a_promise_has_a_verdict_and_a_bar_from_its_attack(
    other: dict[str, float], word: str, known: float
) -> None:
    untested = {**ROW, "id": "b", "mechanism": NAN, "note": "no settings", "epsilon_attack": NAN}
    table = privacy.judged(pd.DataFrame([{**ROW, **other}, untested]))
    assert table.word.tolist() == [word, "open: not testable"]
    assert table.known[0] == known
    assert table.priced.tolist() == [1, 1]
