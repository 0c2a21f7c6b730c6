"""An analysis is run unit by unit, and finished units are not computed again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import swept
from omegaconf import OmegaConf


@dataclass(frozen=True)
class Toy:
    """Two units; the second is interrupted while the file `folder`/broken is there."""

    scale: float
    folder: str

    def units(self) -> list[str]:
        return ["one", "two"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        with (Path(self.folder) / "log").open("a") as log:
            log.write(f"{unit} ")
        if unit == "two" and (Path(self.folder) / "broken").exists():
            raise KeyboardInterrupt
        return [{"unit": unit, "value": self.scale * seed, "note": ""}]


def test_finished_units_are_kept(tmp_path: Path) -> None:
    spec = OmegaConf.create({"_target_": f"{__name__}.Toy", "scale": 0.5, "folder": str(tmp_path)})
    broken, log = tmp_path / "broken", tmp_path / "log"
    broken.touch()
    with pytest.raises(KeyboardInterrupt):
        swept.analysis(spec, 3, tmp_path / "units")
    broken.unlink()
    frame = swept.analysis(spec, 3, tmp_path / "units")
    assert frame.unit.tolist() == ["one", "two"]
    assert frame.value.tolist() == [1.5, 1.5]
    assert log.read_text().split() == ["one", "two", "two"]
    swept.analysis(spec, 4, tmp_path / "units")  # another seed, other settings: computed anew
    spec.scale = 1.0
    swept.analysis(spec, 4, tmp_path / "units")
    assert log.read_text().split()[3:] == ["one", "two"] * 2
