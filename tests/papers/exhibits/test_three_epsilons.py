"""Promises with their verdicts, from fake rows."""

import math

import pandas as pd

from dplangevin.papers.exhibits import three_epsilons

NAN = math.nan
ROW = {
    "id": "a", "paper": "li2019", "where": "Table 1", "statement": "s", "published": "x", "label": "MNIST",
    "epsilon_claimed": 0.99, "delta": 1e-5, "epsilon_formula": 0.4, "epsilon_add_remove": 0.2,
    "epsilon_replace_one": 5e6, "epsilon_attack": 0.1, "mechanism": "m", "chosen": NAN, "solved": NAN, "note": NAN,
    "formula": "f", "attack_runs": 5, "rescued": 0, "tight": 0, "epsilon_solved": 0.9, "violated": NAN,
    "epsilon_attack_add_remove": NAN, "formula_adjacency": "add_remove",
}  # fmt: skip


def test_a_promise_has_a_verdict_and_a_bar_from_its_attack() -> None:
    """The words of other prices: `verdicts` and the committed page."""
    untested = {**ROW, "id": "b", "mechanism": NAN, "note": "no settings", "epsilon_attack": NAN}
    table = three_epsilons.judged(pd.DataFrame([ROW, untested]))
    assert table.word.tolist() == ["holds in part: add/remove only", "open: not testable"]
    assert table.known.tolist() == [0.1, three_epsilons.SMALLEST / 1.5]
    assert table.priced.tolist() == [1, 1]
