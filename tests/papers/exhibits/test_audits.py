"""The exhibit of audits of published learners: the committed rows behind it."""

from pathlib import Path
from typing import Any

import audits as script
import pandas as pd
import pytest
from composed import ROOT
from drawing import exhibit

from dplangevin.pipeline.config import content, load

RESULT = ROOT / "benchmarks/audits.csv"


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


def test_the_program_and_tables_of_a_violation_go_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PROGRAMS", tmp_path)
    of = {"learner": "attacks.faulty_learners:ClassesOffLabels", "skip": ["outlier", "among"], "runs": 60}
    assert script.audit("classes", of, 0.95)["violated"]
    names = ["classes.py", "classes_first.csv", "classes_second.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert not script.audit("classes", of | {"claims": (9.0, 0.0)}, 0.95)["violated"]
    assert not list(tmp_path.iterdir())
