"""Content that stages read from files: conf/<group>/<name>.yaml in a folder of the test's."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf


def write_content(folder: Path, **groups: Any) -> None:
    for group, entries in groups.items():
        (folder / "conf" / group).mkdir(parents=True, exist_ok=True)
        for name, entry in entries.items():
            OmegaConf.save(OmegaConf.create(entry), folder / "conf" / group / f"{name}.yaml")
