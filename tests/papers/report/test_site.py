"""The committed report: its claims, exhibits and numbers, its size, and that another build gives the same bytes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from dplangevin.papers.report.findings import TEXTS
from dplangevin.reporting import read

ROOT = Path(__file__).parents[3]
SITE = ROOT / "results/report"
FINDINGS: Any = OmegaConf.load(ROOT / "conf/report/findings.yaml").findings
EXHIBITS: Any = OmegaConf.load(ROOT / "conf/report/exhibits.yaml").groups
STATEMENTS: Any = OmegaConf.load(ROOT / "conf/report/statements.yaml")
# digits and words of number that are no results
NAMES = (
    r"(Theorems?|Lemma|Propositions?|Conditions?|conditions?|Algorithm|Section|eq\.|Tables?|Figure|CIFAR-|ResNet-|and)"
    r" ?[\d.]*\d|wang2015|li2019|ryffel2022|et al\. \(\d+\)|exp\(−\d?U\)|1/q²|1/L²?|2 log\(1/δ\)|4LR"
    r"|σ ≥ 1|95 %|two (normals|papers|dimensions)|a factor two \(four for DP-SGFS\)|ten thousand records|ε of ten"
    r"|the (two|three (schedules|papers)|four CIFAR-10 rows)"
)
WORDS = r"\b(two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred|thousand)\b"


@pytest.fixture(scope="module")
def claims() -> pd.DataFrame:
    return read.read_claims(ROOT / "results/claims.csv").set_index("id")


@pytest.mark.slow
def test_another_build_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("conf", "data", "docs", "benchmarks", "params.yaml", "requirements.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "results").mkdir()
    for path in (ROOT / "results").iterdir():
        if path.name != "report":
            (tmp_path / "results" / path.name).symlink_to(path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    env |= {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, str(ROOT / "pipelines/report.py"), "page"]
    subprocess.run(command, cwd=tmp_path, env=env, check=True)
    built = {path.name: path.read_bytes() for path in (tmp_path / "results/report").iterdir()}
    committed = {path.name: path.read_bytes() for path in SITE.iterdir()}
    assert sorted(built) == sorted(committed)
    assert [name for name in built if built[name] != committed[name]] == []  # else: dvc repro report


def test_every_claim_is_there_under_its_id(claims: pd.DataFrame) -> None:
    """Below its statement; every statement with a synthesis is there."""
    for paper, rows in claims.groupby("paper"):
        page = (SITE / f"{paper}.md").read_text("utf-8")
        assert sorted(re.findall(r"^### (\S+)$", page, re.MULTILINE)) == sorted(rows.index)
        assert {*STATEMENTS[paper]} <= set(re.findall(r"^## (.*)$", page, re.MULTILINE))


def test_every_exhibit_has_its_picture_its_command_and_its_files() -> None:
    cards = (SITE / "exhibits.md").read_text("utf-8").split("\n### ")[1:]
    made = {path.name for path in (ROOT / "results/exhibits").iterdir()}
    shown = {}
    for card in cards:
        if links := set(re.findall(r"\]\(\.\./exhibits/([^)]+)\)", card)):
            (name,) = {link.partition("/")[0] for link in links}
            shown[name] = {link.partition("/")[2] for link in links}
            assert card.startswith(f"{name}\n")
            assert f"`make exhibit ID={name} FORCE=1`" in card
    assert shown == {
        name: {path.name for path in (ROOT / "results/exhibits" / name).iterdir()} for name in made
    }


def written() -> list[tuple[str, dict[str, Any], str]]:
    found = [(name, entry, entry[key]) for name, entry in FINDINGS.items() for key in TEXTS]
    found += [(name, entry, entry["finding"]) for group in EXHIBITS.values() for name, entry in group.items()]
    found += [(name, {}, text) for said in STATEMENTS.values() for name, text in said.items()]
    return found


@pytest.mark.parametrize(("name", "entry", "text"), written())
def test_no_result_is_typed(name: str, entry: dict[str, Any], text: str) -> None:
    """Digits and words of number outside of braces are names, or what a paper prints and the entry says so."""
    bare = re.sub(r"\{[^}]*\}", "", text)
    for printed in entry.get("printed", []):
        bare = bare.replace(printed, "")
    assert re.findall(rf"\d|{WORDS}", re.sub(NAMES, "", " ".join(bare.split()))) == [], bare


def test_the_promises_that_are_said_to_hold_do() -> None:
    """In words, which no template fills."""
    said = EXHIBITS["all"]["privacy_claims"]["finding"]
    frame = read.read_analysis("privacy_claims", ROOT / "results/analyses").set_index("id")
    priced = frame[frame.mechanism.notna()]
    kept = priced.epsilon_replace_one.le(priced.epsilon_claimed)
    assert "a third hold for replaced records" in said
    assert 3 * kept.sum() == len(priced)
    added = priced[~kept & priced.epsilon_add_remove.le(priced.epsilon_claimed)]
    of_dp_sgd = {name for name in added.index if "dp_sgd" in name}
    assert set(added.index) - of_dp_sgd == {"default_step"}
    assert not any("pneumonia" in name for name in of_dp_sgd)
