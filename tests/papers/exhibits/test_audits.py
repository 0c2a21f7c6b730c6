"""The exhibit of audits of published learners: its page, and the committed rows behind it."""

import re
from pathlib import Path
from typing import Any

import audits as script
import pandas as pd
import pytest
from drawing import exhibit

from dplangevin.papers.exhibits.privacy import audits_page
from dplangevin.pipeline.config import content, load

ROOT = Path(__file__).parents[3]
RESULT = ROOT / "benchmarks/audits.csv"
ROW = {
    "id": "a", "label": "A", "package": "p", "version": "1.0", "date": "2026-01-01", "options": "p:A --runs 200",
    "neighbours": "replace_one", "epsilon_promised": 1.0, "delta": 0.0, "epsilon_attack": 0.4, "epsilon_visible": 1.5,
    "violated": 0, "confidence": 0.95, "pair": "flipped label", "event": "coef_[0] >= 1", "observations": "",
    "pairs": 2, "runs": 200, "fits": 1600,
}  # fmt: skip


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame([ROW, ROW | {"id": "b", "label": "B", "epsilon_attack": 3.0, "violated": 1}])


def test_the_page_states_power_and_explains_each_violation(frame: pd.DataFrame) -> None:
    notes = {
        "b": {"effect": "B releases a count.", "reported": "https://example.org/1"},
        "a": {"effect": "none"},
    }
    page = audits_page(frame, introduction="", notes=notes, title="t")
    assert "no violation found" in page
    assert "B releases a count." in page
    assert "[before](https://example.org/1)" in page
    assert "docs/audits/b.py" in page
    assert page.count("p:A --runs 200") == 2
    assert "none" not in page
    with pytest.raises(ValueError, match="no note on the violation by b"):
        audits_page(frame, introduction="", notes={}, title="t")


def test_committed_rows_are_those_of_the_configuration() -> None:
    learners: Any = content("audit", "published", load(), ROOT / "conf")["learners"]
    committed = pd.read_csv(RESULT, keep_default_na=False)
    assert set(committed.id) <= set(learners)
    for row in committed.itertuples():
        assert row.options == script.options(learners[row.id], learners[row.id].get("runs", script.RUNS))
    assert (committed.violated == (committed.epsilon_attack > committed.epsilon_promised)).all()


def test_every_violation_has_a_program_and_every_program_a_violation() -> None:
    committed = pd.read_csv(RESULT, keep_default_na=False)
    found = set(committed.id[committed.violated.eq(1)])
    programs = {path.stem: path.read_text() for path in (ROOT / "docs/audits").glob("*.py")}
    assert set(programs) == found
    for text in programs.values():
        assert "dplangevin" not in text
        compile(text, "show.py", "exec")
    assert found <= set(exhibit("audits").table.notes)


def test_rows_of_absent_packages_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(script, "RESULT", tmp_path / "audits.csv")
    monkeypatch.setattr(script, "content", lambda *_: {"confidence": 0.95, "learners": {
        "a": {"label": "A", "package": "no-such-package", "train": "x:y"},
        "b": {"label": "B", "package": "numpy", "train": "b:b"},
    }})  # fmt: skip
    monkeypatch.setattr(script, "load", dict)
    monkeypatch.setattr(script, "audit", lambda *_: {name: ROW[name] for name in list(ROW)[5:]})
    script.merged(ROW, ["a", "b"])
    monkeypatch.setattr("sys.argv", ["audits.py"])
    assert script.main() == 0
    assert "a: no-such-package is not installed" in capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "audits.csv")
    assert rows.id.tolist() == ["a", "b"]
    assert str(rows.version[0]) == "1.0"
    assert re.match(r"\d", str(rows.version[1]))
