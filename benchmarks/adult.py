"""Adult as the benchmarks use it: prepared from the bundled copy in a temporary folder, whatever data/ holds."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hydra.utils import instantiate
from omegaconf import DictConfig

from dplangevin.data import Dataset
from dplangevin.data.fetch import fetch
from dplangevin.pipeline.config import compose
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm

KEY = "adult"
EXPERIMENT = "wang2015"


def config(scale: str) -> DictConfig:
    """conf/ composed afresh; params.yaml is neither read nor written."""
    return compose([f"scale={scale}"])


def prepare(cfg: DictConfig, folder: Path) -> Path:
    """The prepared file of Adult in `folder`."""
    spec = cfg.dataset[KEY]
    fetch(KEY, spec.files, folder / "raw")
    path = folder / f"{KEY}.npz"
    instantiate(spec.loader, _partial_=True)(folder=folder / "raw").save(path)
    return path


def problem(cfg: DictConfig) -> Glm:
    """Adult with rows of norm at most 1 ("unit" scaling)."""
    with TemporaryDirectory() as folder:
        data = Dataset.load(prepare(cfg, Path(folder))).scaled("unit")
    made: Glm = instantiate(cfg.problem[cfg.experiment[EXPERIMENT].problem])(data, cfg.repeats)
    return made


def budgets(cfg: DictConfig) -> list[Budget]:
    """The budgets of Figure 1c."""
    return [Budget(float(epsilon), cfg.delta) for epsilon in cfg.experiment[EXPERIMENT].epsilons[KEY]]
