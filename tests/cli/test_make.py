"""What `make help`, the summary of `make repro` and the ceilings of `make lint` print."""

import json
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


def printed(ended: dict[str, int], capsys: pytest.CaptureFixture[str], log: Path) -> list[str]:
    lines = [
        json.dumps({"stage": stage, "status": status, "why": "see above"}) for stage, status in ended.items()
    ]
    (log / "log").write_text("\n".join(lines))
    repro.report(log / "log", 0, ["wang2015_fig1b", "wang2015_fig1c"])
    return capsys.readouterr().out.splitlines()


def test_the_summary_ends_with_what_is_committed_and_how_to_compute_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    lines = printed({}, capsys, tmp_path)
    assert lines[-1].strip() == "make exhibit ID=wang2015_fig1b FORCE=1"
    text = " ".join(" ".join(lines).split())
    assert "Exhibits: 0 of 2 made now. No stage ran, because nothing that results/" in text
    assert max(map(len, lines)) <= 80
    assert len(lines) < 12
    lines = printed({"render@wang2015_fig1b": 0, "render@wang2015_fig1c": 1}, capsys, tmp_path)
    assert "Exhibits: 1 of 2 made now." in lines
    assert "No stage ran" not in " ".join(lines)
    assert lines[lines.index("Failed") + 1] == "  render@wang2015_fig1c: see above"
    shown = lines.index("  wang2015_fig1b: results/exhibits/wang2015_fig1b/wang2015_fig1b.png")
    marks = lines[shown + 1].strip()
    assert [text.split()[0] for text in marks.split(", ")] == ["paper", "reading", "ours"]


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
    assert "lines: src 2, pipelines 1, tests 1, conf 1," in capsys.readouterr().out
    (tmp_path / "pipelines/b.sh").write_text("one\ntwo\n")
    assert size.main(tmp_path) == 1
    assert "src and pipelines, lines: 4 of 3 ABOVE ITS CEILING" in capsys.readouterr().out
