"""Claims for reading: their sentences, places and commands."""

import math
from typing import Any

import pandas as pd
import pytest

from dplangevin.papers.claims.sentences import sentence
from dplangevin.papers.report import pages

INF = math.inf


def claim(**other: Any) -> pd.Series:
    row = {
        "id": "a_b", "title": "A beats B", "paper": "a", "where": "Figure 1", "statement": "A beats B.",
        "published": "A above B", "fact": "f", "kind": "paper", "setting": "chosen", "measure": "interval",
        "unit": "accuracy", "verdict": "holds", "cause": "", "reason": "why so", "ours": -0.02, "low": -0.03,
        "high": 0.01, "asked_low": 0.0, "asked_high": INF, "exhibit": "x; z", "evidence": "results/runs/x",
    }  # fmt: skip
    return pd.Series({**row, **other})


def test_a_row_has_its_words_links_and_commands() -> None:
    text = "\n".join(pages.claim(claim(statement="a | b"), made=["x"]))
    assert text.startswith("### a_b\n\n> a \\| b (Figure 1)\n\n**✓ holds** — A beats B.")
    assert "A beats B. We find −2.00 points of accuracy" in text
    assert "*Why:* Why so." in text
    assert "[x](exhibits.md#x), z (not made here)" in text
    assert "`make exhibit ID=x FORCE=1`, `make exhibit ID=z FORCE=1 SET=pipeline=svhn`" in text
    alone = "\n".join(pages.claim(claim(exhibit="", evidence="data/manifest/dataset/adult.json"), made=[]))
    assert "`dvc repro -f prepare@adult`, `dvc repro -f claims`" in alone
    assert pages.plain("a | b_c *d* <e> _f [g]") == r"a \| b_c \*d\* \<e> \_f \[g\]"


ATTACK = {"measure": "attack to proof", "asked_low": -INF, "asked_high": 1.0}
RATIO = {"unit": "ratio", "ours": 90.0, "low": 84.92, "high": 198.0}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            claim(measure="interval, one split"),
            "We find −2.00 points of accuracy (95 % interval −3.00 to +1.00, over seeds on one split); "
            "the claim asks for more than 0.",
        ),
        (
            claim(ours=0.9466, low=math.nan, high=math.nan, asked_low=0.895, asked_high=0.905, measure=""),
            "We find an accuracy of 94.66 % (one value, without an interval); the claim asks for 89.50 to 90.50 %.",
        ),
        (
            claim(**ATTACK, unit="epsilon", ours=math.nan, low=4.0885, high=1314.7),
            "ε lies between 4.08 (attack, 95 % confidence) and 1320 (proof); the claim allows at most 1.",
        ),
        (
            claim(**ATTACK, **RATIO),
            "Attacks (95 % confidence) show 84.9 to 198 times the bound that the claim states.",
        ),
        (
            claim(reason="not by default: why", kind="extension", unit="exponent alpha", measure="range"),
            "We find an exponent α of −0.02 (range, no interval: −0.03 to 0.01); the claim "
            "asks for more than 0. With the default choice it is not shown.",
        ),
        (
            claim(ours=math.nan, verdict="open", measure="", reason="no run; the files are missing"),
            "No run.",
        ),
    ],
)  # fmt: skip
def test_a_result_is_one_sentence_with_its_certainty(row: pd.Series, said: str) -> None:
    assert sentence(row) == said


PLACES = {"Abstract": [0], "Theorem 3": [3, 3], "Table": [5, 2]}


def test_claims_are_listed_by_statement_in_the_order_of_the_paper() -> None:
    wheres = ["Table 4", "Section 5.1, Lemma", "Appendix D", "Theorem 3.1", "Abstract"]
    wheres.append("Section 3.3, on Theorem 3.1")
    rows = [claim(id=f"r_{i}", paper="ryffel2022", where=where) for i, where in enumerate(wheres)]
    page = pages.claims({"title": "", "places": PLACES}, pd.DataFrame(rows), {"Theorem 3.1": "It holds."}, [])
    ordered = [line[3:] for line in page if line.startswith("## ")]
    assert ordered == ["Abstract", "Theorem 3.1", "Section 5.1, Lemma", "Table 4", "Appendix D"]
    start = page.index("## Theorem 3.1")
    assert page[start + 2] == "It holds."
    assert page[start + 4] == "* ✓ holds: [A beats B](#r_3); [A beats B](#r_5)."
