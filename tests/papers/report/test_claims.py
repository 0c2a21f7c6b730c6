"""Claims for reading: their plots, places and counts; sentences with numbers; colours."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from dplangevin.papers.claims import verdicts
from dplangevin.papers.report import charts, claims
from dplangevin.papers.report.findings import TEXTS, Unknown, filled, known

CLAIMS = Path(__file__).parents[3] / "conf/claim"
INF = math.inf


def claim(**other: Any) -> pd.Series:
    quote = {
        "paper": "a",
        "where": "Figure 1",
        "statement": "A beats B.",
        "published": "A above B",
        "fact": "f",
    }
    judged = {"kind": "paper", "setting": "chosen", "measure": "interval", "unit": "accuracy"}
    numbers = {"ours": -0.02, "low": -0.03, "high": 0.01, "asked_low": 0.0, "asked_high": INF}
    judged |= {"verdict": "reproduced", "reason": "why so"}
    return pd.Series(
        {
            "id": "a_b",
            "title": "A beats B",
            **quote,
            **judged,
            **numbers,
            "exhibit": "x; z",
            "evidence": "results/runs/x",
            **other,
        }
    )


def test_a_plot_shows_ours_beside_what_is_asked() -> None:
    svg = str(claims.plot(claim()))
    said = "We find −2.00 points of accuracy (95 % interval −3.00 to +1.00); the claim asks for more than 0."
    assert f'aria-label="{said}"' in svg
    ours, left = (
        float(re.findall(f'class="{name}" {key}="([^"]+)"', svg)[0])
        for name, key in (("ours", "cx"), ("asked", "x"))
    )
    assert ours < left  # below what is asked
    wide = str(claims.plot(claim(ours=10.0, low=1.0, high=1000.0, asked_low=-INF, asked_high=2.0)))
    assert "The axis is logarithmic." in wide
    assert "asked" not in claims.plot(claim(asked_low=math.nan, asked_high=math.nan))
    assert claims.plot(claim(ours=math.nan)) == ""


def test_a_row_has_its_words_links_and_commands() -> None:
    rows = pd.DataFrame([claim(), claim(exhibit=math.nan, evidence="data/manifest/dataset/adult.json")])
    row, alone = claims.read(rows, made=["x"])
    assert (row.title, row.word, row.reason) == ("A beats B", "reproduced", "Why so.")
    assert row.commands == ("make exhibit ID=x FORCE=1", "make exhibit ID=z FORCE=1 SET=pipeline=svhn")
    assert alone.commands == ("dvc repro -f prepare@adult", "dvc repro -f claims")


ATTACK = {
    "unit": "epsilon",
    "measure": "attack to proof",
    "ours": math.nan,
    "asked_low": -INF,
    "asked_high": 1.0,
}
COUNT = {"unit": "records", "measure": "exact", "ours": 4177.0, "low": math.nan, "high": math.nan}
RATIO = {"unit": "ratio", "measure": "exact", "ours": 90.0, "low": 84.92, "high": 198.0, "asked_high": 1.0}


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
            claim(**ATTACK, low=4.0885, high=1314.7),
            "ε lies between 4.09 (attack, 95 % confidence) and 1,315 (proof); the claim allows at most 1.",
        ),
        (
            claim(**ATTACK | {"measure": "exact pair to proof"}, low=5.775, high=1314.7),
            "ε lies between 5.78 (exact, for one pair of data sets) and 1,315 (proof); the claim allows at most 1.",
        ),
        (
            claim(**ATTACK, low=math.nan, high=387.86),
            "ε is at most 388 (proof), and no attack was run; the claim allows at most 1.",
        ),
        (
            claim(**RATIO | {"measure": "attack to proof", "ours": 198.0, "asked_low": -INF}),
            "The ratio to the bound that the claim states lies between 84.9 (attack, 95 % confidence) and 198 (proof).",
        ),
        (
            claim(**RATIO | {"measure": "attack to proof", "asked_low": -INF}),
            "Attacks (95 % confidence) show 84.9 to 198 times the bound that the claim states.",
        ),
        (
            claim(**RATIO, asked_low=-INF),
            "Exact computation gives 84.92 to 198 times the bound that the claim states.",
        ),
        (
            claim(**COUNT, asked_low=4177.0, asked_high=4177.0),
            "Exact computation gives 4,177 records; the paper says 4,177.",
        ),
        (
            claim(verdict="reproduced under stated choices", kind="extension", unit="exponent alpha", measure="range"),
            "We find an exponent α of −0.02 (range, no interval: −0.03 to 0.01); the question "
            "asks for more than 0. Another setting, network or reading meets it.",
        ),
        (
            claim(ours=math.nan, verdict="not testable", measure="", reason="no run; the files are missing"),
            "No run.",
        ),
    ],
)  # fmt: skip
def test_a_result_is_one_sentence_with_its_certainty(row: pd.Series, said: str) -> None:
    assert claims.sentence(row) == said


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ({"high": -0.01}, claims.ABSENT),
        ({"high": 0.0}, claims.ABSENT),
        ({}, claims.IMPRECISE),
        ({"high": -0.01, "setting": "stand-in"}, claims.OUTSIDE),
        ({"high": -0.01, "measure": "range"}, claims.IMPRECISE),
        ({"low": math.nan, "high": math.nan, "measure": ""}, claims.IMPRECISE),
        ({"measure": "exact"}, claims.SOME_CASES),
        ({"high": -0.01, "verdict": "contradicted"}, ""),
    ],
)
def test_what_is_not_reproduced_has_one_of_four_causes(other: dict[str, Any], cause: str) -> None:
    assert claims.why_open(claim(**{"verdict": "not reproduced", **other})) == cause


def test_sentences_are_in_the_order_of_the_paper() -> None:
    wheres = ["Table 4", "Section 5.1, Lemma", "Appendix D", "Theorem 3.1", "Abstract", "Section 1"]
    rows = pd.DataFrame([claim(id=f"r_{w}", paper="ryffel2022", where=w, statement=w) for w in wheres])
    ordered = [sentence.where for sentence in claims.in_order(claims.read(rows, []))["ryffel2022"]]
    assert ordered == ["Abstract", "Section 1", "Theorem 3.1", "Section 5.1, Lemma", "Table 4", "Appendix D"]


def test_counts_leave_questions_of_ours_apart() -> None:
    rows = [
        claim(),
        claim(verdict="contradicted"),
        claim(verdict="not reproduced", measure=math.nan),
        claim(kind="reading"),
        claim(kind="extension", verdict="holds"),
    ]
    columns, lines = claims.counts(pd.DataFrame(rows))
    assert dict(zip(columns, lines[0][1], strict=False)) == dict.fromkeys(columns, 0) | {
        "reproduced": 1,
        "contradicted": 1,
        claims.IMPRECISE: 1,
    }
    assert claims.questions(pd.DataFrame(rows)) == [("holds", 1)]
    ((fact, places),) = claims.contradicted(pd.DataFrame(rows))
    assert (fact, places) == ("A beats B", [("a_b", "a", "Figure 1")])


def test_the_legend_has_every_word() -> None:
    said = {value for name, value in vars(verdicts).items() if name.isupper() and isinstance(value, str)}
    assert said <= {*claims.VERDICTS, *claims.MEASURES}
    assert {*claims.VERDICTS} == {*claims.MARKS}
    assert {*claims.COUNTED} <= {*claims.VERDICTS, *claims.OPEN}
    assert tuple(claims.KINDS) == verdicts.KINDS
    assert tuple(claims.SETTINGS) == verdicts.SETTINGS
    assert set(claims.MEASURES) == set(verdicts.MEASURES)


def test_every_sentence_of_the_papers_has_a_place() -> None:
    for path in CLAIMS.glob("*.yaml"):
        entries: Any = OmegaConf.to_container(OmegaConf.load(path))
        for entry in entries["claims"].values():
            if "where" in entry:
                assert claims.place(path.stem, entry["where"]) < (99.0,), entry["where"]


def test_sentences_take_their_numbers_from_the_claims() -> None:
    table = pd.DataFrame([claim(ours=-0.05249, low=4.0885)]).set_index("id")
    assert filled("{a_b.ours:points} points,\n at least {a_b.low}", table) == "−5.2 points, at least 4.09"
    with pytest.raises(Unknown, match="no claim a_c"):
        filled("{a_c.ours}", table)


@pytest.mark.parametrize("part", TEXTS)
def test_a_finding_is_shown_where_the_table_has_all_that_it_names(part: str) -> None:
    table = pd.DataFrame([claim()]).set_index("id")
    entry = dict.fromkeys(TEXTS, "{a_b.ours}") | {"quote": "a_b", "claims": ["a_b"]}
    assert known(entry, table)
    assert not known({**entry, part: "{a_c.ours}"}, table)


def test_marks_stand_out_on_both_grounds() -> None:
    for light, dark in charts.palette().values():
        assert charts.contrast(dark, charts.DARK_GROUND) >= 3, light
    assert charts.palette()["#000000"][1] != "#000000"


def test_a_chart_has_a_point_for_each_budget_and_levels_without_one() -> None:
    """JSON has no infinity: small runs have infinite prices, and one seed has no interval."""
    columns = ["method", "epsilon", "epsilon_proven", "mean", "low", "high", "violated", "diverged"]
    rows = [
        ["ops", 1.0, 0.5, 0.812345, math.nan, math.nan, "", 0],
        ["ops", 2.0, INF, 0.9, 0.8, 1.0, "full batches", 0],
        ["nonprivate", INF, math.nan, 0.95, 0.9, 1.0, "", 0],
    ]
    table = pd.DataFrame(rows, columns=columns)
    label = "One-posterior sample (OPS)"
    first = {"label": label, "eps": 1.0, "mean": 0.81234, "low": None, "high": None, "state": "full"}
    second = {"label": label, "eps": 2.0, "mean": 0.9, "low": 0.8, "high": 1.0, "state": "hollow"}
    data = charts.over_epsilon(table, proven=False)
    assert data["points"] == [first, second]
    assert data["levels"] == [{"label": "Non-private", "mean": 0.95}]
    assert [of["label"] for of in data["methods"]] == [label, "Non-private"]
    assert charts.over_epsilon(table, proven=True)["points"] == [{**first, "eps": 0.5}]


def test_methods_of_a_chart_differ_in_colour_mark_or_line() -> None:
    methods = list(OmegaConf.load(CLAIMS.parent / "exhibit/compare.yaml").methods)
    rest = {"epsilon": 1.0, "mean": 0.8, "low": 0.7, "high": 0.9, "violated": "", "diverged": 0}
    data = charts.over_epsilon(pd.DataFrame([{"method": method, **rest} for method in methods]), proven=False)
    looks = [(of["color"], of["shape"], *of["dash"]) for of in data["methods"]]
    assert len(looks) == len(set(looks)) == len(methods)
