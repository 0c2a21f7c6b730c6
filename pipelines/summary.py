"""What a run came to, in plain words: every exhibit with its state, its path and its verdicts."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import networkx as nx
from dvc.stage import Stage

UNAVAILABLE = Path(
    "data/raw/.unavailable"
)  # <data set>.txt, weights_<key>.txt, written by pipelines/fetch.py
EXHIBITS = Path("results/exhibits")
CLAIMS = Path("results/claims.csv")
PAGE = Path("results/report/claims.md")


class Summary:
    """graph: DVC's, with an edge from each stage to those it depends on; made, failed: stages by name."""

    def __init__(self, graph: nx.DiGraph, made: Iterable[str], failed: Mapping[str, Exception]) -> None:
        self.needs = {stage.addressing: _names(nx.descendants(graph, stage)) for stage in graph}
        self.made = set(made)
        self.failed = dict(failed)

    @property
    def unexcused(self) -> list[str]:
        """Stages that failed for another reason than that no source had their data."""
        excused = {name for name in self.failed if unavailable(name)}
        return [name for name in self.failed if name not in excused and not self.needs[name] & excused]

    def cause(self, stage: str) -> str:
        """Why a stage was not made: the first failures among what it needs and itself; "" if none."""
        failed = [name for name in self.failed if name in self.needs[stage] or name == stage]
        roots = [name for name in failed if not self.needs[name] & set(failed)]
        return "\n      ".join(
            f"{name}: {unavailable(name)}" if unavailable(name) else f"{name} failed" for name in roots
        )

    def state(self, stage: str) -> str:
        if stage in self.made:
            return "made"
        return f"not made\n      {cause}" if (cause := self.cause(stage)) else "up to date"

    def text(self, exhibits: Iterable[str]) -> str:
        verdicts = read_verdicts()
        lines = ["", "Exhibits"]
        for name in exhibits:
            figure = EXHIBITS / name / f"{name}.png"
            state = self.state(f"render@{name}")
            lines.append(f"  {name}: {state}")
            kept = " (the earlier one)" if state.startswith("not made") else ""
            lines.append(f"    {figure}{kept}" if figure.exists() else "    no figure yet")
            if name in verdicts:
                counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts[name].most_common())
                lines.append(f"    claims: {counts}")
        for stage, path in (("claims", CLAIMS), ("report", PAGE)):
            lines += ["", f"{path}: {self.state(stage)}"]
        if self.unexcused:
            lines += ["", "Failed (the messages are above)"]
            lines += [f"  {name}: {self.failed[name]}" for name in self.unexcused]
        return "\n".join(lines)


def unavailable(stage: str) -> str:
    """What fetch@<data set> or weights@<key> left when no source had its files, indented; else ""."""
    path = marker(stage)
    return (
        path.read_text(encoding="utf-8").strip().replace("\n", "\n      ") if path and path.exists() else ""
    )


def marker(stage: str) -> Path | None:
    """The file in which fetch@<data set> or weights@<key> says that no source had its files; else None."""
    group, _, key = stage.partition("@")
    name = {"fetch": key, "weights": f"weights_{key}"}.get(group)
    return UNAVAILABLE / f"{name}.txt" if name else None


def read_verdicts(path: Path = CLAIMS) -> dict[str, Counter[str]]:
    """Exhibit -> verdict -> number of claims whose evidence names a file of the exhibit."""
    found: dict[str, Counter[str]] = {}
    if not path.exists():
        return found
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            parts = set(Path(row["evidence"].replace(";", "/").replace(" ", "/")).parts)
            for name in {part.removesuffix("_audited") for part in parts if (EXHIBITS / part).is_dir()}:
                found.setdefault(name, Counter())[row["verdict"]] += 1
    return found


def _names(stages: Iterable[Stage]) -> set[str]:
    return {stage.addressing for stage in stages}
