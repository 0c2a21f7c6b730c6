"""Types of the groups of `params.yaml`; `validate` checks an `Entry` against the object that its `_target_` names."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from dplangevin.pipeline.validate import Group, entry_of

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, lt=float("inf"))]
Share = Annotated[float, Field(gt=0, lt=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Adjacency = Literal["add_remove", "replace_one"]
Scaling = Literal["unit", "global", "raw"]
Epsilons = Sequence[float]
Settings = Mapping[str, Any]
Entry = Annotated[Any, entry_of("with a _target_")]


class File(Group):
    """A raw file, see `data.fetch`; `size` is in bytes, `bundled` is the path of an xz file."""

    name: str
    sha256: Sha256
    size: Positive
    urls: Sequence[str] = ()
    bundled: str | None = None


class Archive(File):
    """The tar file, wheel or sdist that contains the raw files."""

    folder: str


class RowSubset(Group):
    """The rows of a data set, see `data.splits.subset`; `held_out` is the share of training rows to test on."""

    train_rows: Positive | None = None
    held_out: Share | None = None


class Dataset(RowSubset):
    """A data set; `urls` are folders with all files, `limit` is the number of training and of test rows to keep."""

    files: Sequence[File]
    loader: Entry
    urls: Sequence[str] = ()
    archive: Archive | None = None
    assumptions: Sequence[str] = ()
    row_norm_bound: PositiveFloat | None = None
    limit: Positive | None = None
    source: str = ""


class Weights(Group):
    """Published weights; `loader` reads files that `backbones.load` cannot."""

    files: Sequence[File]
    loader: Entry | None = None


class Pretrain(Group):
    """A network that is trained here on a data set, see `backbones.pretrain`."""

    dataset: str
    training: Entry


class Features(RowSubset):
    """Settings of a feature extraction, see `backbones.features.Extraction`."""

    dataset: str
    backbone: str
    public: str
    public_images: Positive
    resize: str
    batch: Positive
    padding: Annotated[int, Field(ge=0)]
    flip: bool


class RunConfig(Group):
    """An entry of `runs:`, see `plan`; `tuned`: its settings were chosen as the experiment's `tuned` says."""

    method: str | None = None
    datasets: Sequence[str] | None = None
    problem: str | None = None
    block: str = ""
    seeds: Positive | None = None
    epsilons: Epsilons | None = None
    settings: Settings | None = None
    assumptions: Sequence[str] = ()
    stream: str | None = None
    tuned: bool = False


class Experiment(Group):
    """An experiment of conf/experiment, see `plan` and `sweep`.

    - `delta`: "1/n^2": the smaller of the configuration's delta and 1/n^2, with n training rows. None: the
      configuration's.
    - `calibrated`: What the values of `epsilons` are: the budgets of the methods, or the proven ε for
      `price_neighbours`, for which the budget of each method is found.
    - `price_neighbours`: Neighbour relation of the proven ε. None: the one of each method's own guarantee.
    - `paired`: Whether chains with Poisson and with subset sampling see the same rows and noise.
    - `one_budget_per_task`: Whether each task is computed alone, as for networks.
    - `compared`: Whether releases are compared with the exact posterior.
    - `noise`: Precision in which the normal noise of chains is drawn, see `random.noise`.
    - `tuned`: How the settings of the runs with `tuned: true` were chosen.
    """

    datasets: Sequence[str]
    methods: Sequence[str] = ()
    problem: str | None = None
    scalings: Sequence[Scaling] | None = None
    epsilons: Mapping[str, Epsilons | Mapping[str, Epsilons]] | None = None
    budgets_per_unit: Positive | None = None
    vary: Mapping[str, Mapping[str, Any] | None] | None = None
    settings: Mapping[str, Settings] | None = None
    runs: Mapping[str, RunConfig] | None = None
    block: str = ""
    seeds: Positive | Mapping[str, Positive] | None = None
    delta: PositiveFloat | Literal["1/n^2"] | None = None
    calibrated: Literal["promised", "proven"] = "promised"
    price_neighbours: Adjacency | None = None
    prices: Sequence[Literal["neighbours", "ryffel2022", "last_iterate"]] = ()
    formula: Any = None
    attack: Any = None
    curve: Any = None
    digit_classifier: Any = None
    stream: str | None = None
    paired: bool = False
    one_budget_per_task: bool = False
    compared: bool = False
    metrics: bool = False
    best_epoch: bool = False
    noise: Literal["float32", "float64"] = "float64"
    assumptions: Sequence[str] = ()
    tuned: str = ""
    part: str = ""


class Reference(Group):
    """Settings of the exact posteriors, see `reference`."""

    datasets: Sequence[str]
    problem: str
    scalings: Sequence[Scaling]
    precision: PositiveFloat
    predictive: Positive
    sampler: Entry


class Config(Group):
    """The whole of `params.yaml`."""

    seed: Annotated[int, Field(ge=0)]
    delta: PositiveFloat
    repeats: Positive
    splits: Positive
    scale: str
    attack_runs: Mapping[str, Positive]
    reference: Reference
    pipeline: Mapping[str, Sequence[str] | Mapping[str, Any]]  # lists that `config.register` makes
    dataset: Mapping[str, Dataset]
    experiment: Mapping[str, Experiment]
    problem: Mapping[str, Entry]
    accountant: Mapping[str, Entry]
    method: Mapping[str, Entry]
    analysis: Mapping[str, Entry]
    weights: Mapping[str, Weights] = {}
    backbone: Mapping[str, Entry] = {}
    pretrain: Mapping[str, Pretrain] = {}
    features: Mapping[str, Features] = {}
