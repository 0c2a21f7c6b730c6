"""A sweep of 60 units of a method that logs what it computes."""

import shutil
from collections import Counter
from pathlib import Path

import toy

from dplangevin.files import File
from dplangevin.pipeline import sweep as sweeps
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.plan import plain


class Sweep:
    """Its results, units and log."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder, self.cfg = data, folder, toy.many_units()
        self.logs = data.parent / "logs"  # one for all, as a unit's key is of its method's settings
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()
        method = {**plain(self.cfg.method.objpert), "_target_": "logged.Logged", "folder": str(self.logs)}
        self.cfg.method.logged = method
        spec = self.cfg.experiment.toy
        spec.methods, spec.vary = ["logged"], {"logged": {"ridge": [0.1, 5.0]}}
        paths = [folder / f"results/{name}.csv" for name in ("runs", "scores")]
        self.store = Store(paths, folder / "units")

    def run(self) -> dict[str, bytes]:
        """The bytes of its results, by name."""
        inputs = sweeps.Inputs(File.at(self.data))
        self.store.write(sweeps.sweep(self.cfg, "toy", "rows", inputs, self.store))
        return {path.name: path.read_bytes() for path in (self.folder / "results").iterdir()}

    def computed(self) -> list[tuple[str, int]]:
        """Units, and the process that computed each, as often as they were."""
        log = self.logs / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(unit, int(pid)) for unit, _, pid in (line.partition(",") for line in lines)]

    def stored(self) -> list[Path]:
        return list((self.folder / "units").glob("[!.]*.scores.json"))

    def kept(self) -> int:
        return len(self.stored())

    def counts(self) -> Counter[int]:
        """How many units were computed how often."""
        return Counter(Counter(unit for unit, _ in self.computed()).values())
