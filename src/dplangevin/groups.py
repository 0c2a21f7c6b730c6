"""What conf/ may say where it describes no object: the groups of `params.yaml` as types, checked when it is composed.

Entries with a `_target_` (methods, problems, loaders, analyses ...) are checked against what they name, see `typed`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dplangevin.checks import not_negative, positive, require
from dplangevin.typed import Group

Adjacency = Literal["add_remove", "replace_one"]
Scaling = Literal["unit", "global", "raw"]
Epsilons = Sequence[float]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Archive(Group):
    """The tar file that raw files are members of.  size: bytes."""

    name: str
    size: int
    folder: str
    urls: Sequence[str]
    sha256: str

    def __post_init__(self) -> None:
        _file(self.size, self.sha256)


@dataclass(frozen=True)
class File(Group):
    """A raw file, see `data.fetch`.  size: bytes; bundled: path of an xz file."""

    name: str
    sha256: str
    size: int
    urls: Sequence[str] = ()
    bundled: str | None = None

    def __post_init__(self) -> None:
        _file(self.size, self.sha256)


@dataclass(frozen=True)
class Part(Group):
    """What experiments learn from of a data set, see `data.part`."""

    train_rows: int | None = field(default=None, kw_only=True)
    held_out: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _positive(train_rows=self.train_rows)
        share = self.held_out
        require(share is None or 0 < share < 1, f"held_out = {share} must be in (0, 1), or null for none")


@dataclass(frozen=True)
class Dataset(Part):
    """limit: rows of each part to keep, None for all; urls: of folders that hold all files; archive: of which all files
    are members."""

    files: Sequence[File]
    loader: Any
    urls: Sequence[str] = ()
    archive: Archive | None = None
    assumptions: Sequence[str] = ()
    row_norm_bound: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(row_norm_bound=self.row_norm_bound, limit=self.limit)


@dataclass(frozen=True)
class Weights(Group):
    """loader: of files that are not in the form of `backbones.load`, see `manifest`."""

    files: Sequence[File]
    loader: Any = None


@dataclass(frozen=True)
class Pretrain(Group):
    dataset: str
    training: Any


@dataclass(frozen=True)
class Features(Part):
    """See `backbones.features.Extraction`."""

    dataset: str
    backbone: str
    public: str
    public_images: int
    resize: str
    batch: int
    padding: int
    flip: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(padding=self.padding)
        positive(public_images=self.public_images, batch=self.batch)


@dataclass(frozen=True)
class Run(Group):
    """An entry of `runs:` of an experiment, see `plan`.  datasets: that it is of, None for all; tuned: by what the
    experiment's `tuned` says."""

    method: str | None = None
    datasets: Sequence[str] | None = None
    problem: str | None = None
    block: str = ""
    seeds: int | None = None
    epsilons: Epsilons | None = None
    settings: Settings | None = None
    assumptions: Sequence[str] = ()
    stream: str | None = None
    tuned: bool = False

    def __post_init__(self) -> None:
        _positive(seeds=self.seeds)


@dataclass(frozen=True)
class Experiment(Group):
    """See `plan` and `experiment`.  tuned: how the settings of its tuned runs were chosen.  scored: which of the test
    rows, of every run; a method may score its own on fewer.  seeds: of all data sets, or by data set.  noise: the
    precision that the normals of chains are drawn in, see `random.noise`."""

    datasets: Sequence[str]
    methods: Sequence[str] = ()
    problem: str | None = None
    scalings: Sequence[Scaling] | None = None
    epsilons: Mapping[str, Epsilons | Mapping[str, Epsilons]] | None = None
    budgets_per_unit: int | None = None
    vary: Mapping[str, Mapping[str, Any] | None] | None = None
    settings: Mapping[str, Settings] | None = None
    runs: Mapping[str, Run] | None = None
    block: str = ""
    seeds: int | Mapping[str, int] | None = None
    delta: float | None = None
    audit: Adjacency | None = None
    prices: Sequence[Literal["neighbours", "ryffel2022", "last_iterate"]] = ()
    formula: Any = None
    attack: Any = None
    curve: Any = None
    judge: Any = None
    stream: str | None = None
    paired: bool = False
    apart: bool = False
    compared: bool = False
    metrics: bool = False
    best_epoch: bool = False
    scored: Literal["all", "odd"] = "all"
    noise: Literal["float32", "float64"] = "float64"
    assumptions: Sequence[str] = ()
    tuned: str = ""
    part: str = ""

    def __post_init__(self) -> None:
        seeds = self.seeds if isinstance(self.seeds, Mapping) else {"": self.seeds}
        _positive(**{f"seeds.{name}".rstrip("."): value for name, value in seeds.items()})
        _positive(budgets_per_unit=self.budgets_per_unit, delta=self.delta)


@dataclass(frozen=True)
class Reference(Group):
    """The exact posteriors, see `reference`."""

    datasets: Sequence[str]
    problem: str
    scalings: Sequence[Scaling]
    precision: float
    predictive: int
    sampler: Any

    def __post_init__(self) -> None:
        positive(precision=self.precision, predictive=self.predictive)


@dataclass(frozen=True)
class Stage(Group):
    """A run of conf/pipeline.  needs: the manifest of its data."""

    experiment: str
    dataset: str
    needs: str


@dataclass(frozen=True)
class Extracted(Group):
    """An entry of `features:` of conf/pipeline.  name: of conf/features; dataset, weights: what they are made of."""

    name: str
    dataset: str
    weights: str


@dataclass(frozen=True)
class Pipeline(Group):
    datasets: Sequence[str]
    weights: Sequence[str]
    pretrain: Sequence[str]
    features: Mapping[str, Extracted]
    runs: Mapping[str, Stage]
    analyses: Mapping[str, str]
    exhibits: Mapping[str, str]
    papers: Sequence[str]


@dataclass(frozen=True)
class Config(Group):
    """`params.yaml`."""

    seed: int
    delta: float
    repeats: int
    splits: int
    scale: str
    audit_runs: Mapping[str, int]
    reference: Reference
    pipeline: Pipeline
    dataset: Mapping[str, Dataset]
    experiment: Mapping[str, Experiment]
    problem: Settings
    accountant: Settings
    method: Settings
    analysis: Settings
    weights: Mapping[str, Weights] = field(default_factory=dict)
    backbone: Settings = field(default_factory=dict)
    pretrain: Mapping[str, Pretrain] = field(default_factory=dict)
    features: Mapping[str, Features] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.seed >= 0, f"seed = {self.seed} must be a whole number of at least 0")
        _positive(delta=self.delta, repeats=self.repeats, splits=self.splits, **self.audit_runs)


def _positive(**values: float | None) -> None:
    positive(**{name: value for name, value in values.items() if value is not None})


def _file(size: int, sha256: str) -> None:
    positive(size=size)
    require(bool(re.fullmatch("[0-9a-f]{64}", sha256)), f"sha256 = {sha256!r} must be 64 hexadecimal digits")
