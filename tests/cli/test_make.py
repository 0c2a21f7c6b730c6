"""What `make help`, the summary of `make repro` and the ceilings of `make lint` print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import repro
import size

ROOT = Path(__file__).parents[2]


def test_help_fits_80_columns_and_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (phony,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY:"))
    listed = [line.split()[1] for line in lines if line.startswith("make ")]
    assert sorted(listed) == sorted(phony.split()[1:])
    assert not any("|" in line for line in lines)
    words = ["make", "repro", "CLUSTER=tcp://head:8786", "--dry-run", f"PYTHON={sys.executable}"]
    dry = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r'^DPL_CLUSTER="tcp://head:8786" .*pipelines/repro.py', dry.stdout, re.MULTILINE)


def test_the_summary_lists_what_was_made_with_its_verdicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(repro, "EXHIBITS", tmp_path)
    monkeypatch.setattr(repro, "CLAIMS", ROOT / "results/claims.csv")
    for name, time in (("wang2015_fig1b", 20), ("wang2015_fig1c", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.png").touch()
        os.utime(tmp_path / name / f"{name}.png", (time, time))
    lines = repro.summary(["wang2015_fig1b", "wang2015_fig1c", "none"], 10)
    assert lines[-1].startswith("Exhibits: 1 of 3 made now.")
    (marks,) = (line.partition("wang2015_fig1b.png: ")[2] for line in lines if ".png" in line)
    assert [text.split()[0] for text in marks.split(", ")] == ["paper", "reading", "ours"]
    assert any("wang2015_fig1c.png" in line for line in repro.summary(["wang2015_fig1c"], 10))


def test_lint_counts_what_is_in_git_and_fails_above_a_ceiling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Templates and scripts count, results and generated files do not."""
    code = ("src/a.py", "src/a.html", "pipelines/b.sh", "tests/c.py", "conf/d.yaml", "results/e.py")
    for name in (*code, "params.yaml", "docs/f.md", "README.md", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one word\n")
    ceilings = {"src and pipelines, lines": 3, "tests, lines": 1, "docs, words": 2, "README, words": 2}
    lines = "".join(f'"{name}" = {number}\n' for name, number in ceilings.items())
    (tmp_path / "pyproject.toml").write_text(f"[tool.dplangevin.ceilings]\n{lines}")
    subprocess.run("git init --quiet && git add .", shell=True, cwd=tmp_path, check=True)
    assert size.main(tmp_path) == 0
    (tmp_path / "pipelines/b.sh").write_text("one\ntwo\n")
    assert size.main(tmp_path) == 1
    assert "src and pipelines, lines: 4 of 3 ABOVE ITS CEILING" in capsys.readouterr().out
