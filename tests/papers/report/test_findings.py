"""The findings of README.md: those of conf/report/findings.yaml, with numbers that link to their claims."""

import re
from typing import Any

import pandas as pd
import pytest
from checkout import ROOT
from omegaconf import OmegaConf

from dplangevin.papers.report.findings import BEGIN, END, TEXTS, in_readme
from dplangevin.reporting import read

README = (ROOT / "README.md").read_text("utf-8")
LONGEST = 20  # words in a sentence, where it can be
LIMIT = 25  # words in a sentence


@pytest.fixture(scope="module")
def claims() -> pd.DataFrame:
    return read.read_claims(ROOT / "results/claims.csv").set_index("id")


@pytest.fixture
def findings() -> Any:
    content: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/report/findings.yaml"))
    return content["findings"]


def test_the_readme_has_the_findings_of_the_report(findings: Any, claims: pd.DataFrame) -> None:
    assert in_readme(README, findings, claims) == README  # else: python pipelines/report.py readme


def test_the_first_number_of_a_claim_links_to_it(findings: Any, claims: pd.DataFrame) -> None:
    table = claims.iloc[:1].assign(ours=-0.0123)
    (name,) = table.index
    entry = {"readme": f"It is {{{name}.ours:points}} to {{{name}.ours:percent}}."}
    page = in_readme(f"a\n{BEGIN}\nold\n{END}\nb\n", {"one": entry}, table)
    link = f"results/report/{name.partition('_')[0]}.md#{name}"
    assert page == f"a\n{BEGIN}\n1. It is [−1.2]({link}) to −1.2.\n{END}\nb\n"
    with pytest.raises(KeyError, match=f"no claim {name}"):
        in_readme(page, {"one": entry}, table.iloc[:0])


def test_sentences_are_short(findings: Any) -> None:
    """At most about twenty words: a few may have more, none many more."""
    texts = [entry[part] for entry in findings.values() for part in (*TEXTS, "readme") if part in entry]
    sentences = [part for text in texts for part in re.split(r"(?<!et al)[.:;] ", text)]
    lengths = [len(sentence.split()) for sentence in sentences]
    assert max(lengths) <= LIMIT, sentences[lengths.index(max(lengths))]
    assert sum(length > LONGEST for length in lengths) <= len(lengths) / 10
