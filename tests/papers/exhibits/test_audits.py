"""The exhibit of audits of published learners: the committed rows behind it."""

import re
from pathlib import Path
from typing import Any

import audits as script
import pandas as pd
import pytest
from drawing import exhibit

from dplangevin.pipeline.config import content, load

ROOT = Path(__file__).parents[3]
RESULT = ROOT / "benchmarks/audits.csv"
ROW = {
    "id": "a", "label": "A", "package": "p", "version": "1.0", "date": "2026-01-01", "options": "p:A --runs 200",
    "neighbours": "replace_one", "epsilon_promised": 1.0, "delta": 0.0, "epsilon_attack": 0.4, "epsilon_visible": 1.5,
    "violated": 0, "confidence": 0.95, "pair": "flipped label", "event": "coef_[0] >= 1", "observations": "",
    "pairs": 2, "runs": 200, "fits": 1600,
}  # fmt: skip


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
    (part,) = [part for part in exhibit("audits").table.parts if "join" in part]
    assert found <= set(part.join.id)


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
