"""Types of the groups of `params.yaml`; `validate` checks an `Entry` against the object that its `_target_` names."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dplangevin.pipeline.validate import Entry, Epsilon

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, lt=float("inf"))]
Delta = Annotated[float, Field(gt=0, lt=1)]
Texts = Sequence[str]
Scalings = Sequence[Literal["unit", "global", "raw"]]
Budgets = Annotated[Sequence[Epsilon], Field(min_length=1)]


class _Group(BaseModel, strict=True, extra="forbid"):
    """A mapping that builds no object; the fields of a subclass are its words."""


class _File(_Group):  # see `data.fetch`
    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: Positive  # in bytes
    urls: Texts = ()
    bundled: str | None = None  # the path of an xz file
    folder: str | None = None  # in an archive, which contains the raw files


class RowSubset(_Group):
    """The rows of a data set, see `data.splits.subset`; `held_out` is the share of training rows to test on."""

    train_rows: Positive | None = None
    held_out: Annotated[float, Field(gt=0, lt=1)] | None = None


class _Dataset(RowSubset):
    files: Sequence[_File]
    loader: Entry
    urls: Texts = ()  # folders with all files
    archive: _File | None = None
    assumptions: Texts = ()
    row_norm_bound: PositiveFloat | None = None
    limit: Positive | None = None  # the number of training and of test rows to keep
    source: str = ""


class _Weights(_Group):
    files: Sequence[_File]
    loader: Entry | None = None  # of files that `backbones.load` cannot read


class _Pretrain(_Group):
    dataset: str
    training: Entry


class _Features(RowSubset):  # see `backbones.features.Extraction`
    dataset: str
    backbone: str
    public: str
    public_images: Positive
    resize: str
    batch: Positive
    padding: Annotated[int, Field(ge=0)]
    flip: bool


class _RunConfig(_Group):  # an entry of `runs`, see `plan`
    method: str | None = None
    datasets: Texts | None = None
    problem: str | None = None
    block: str = ""
    seeds: Positive | None = None
    epsilons: Budgets = ()
    settings: Mapping[str, Any] | None = None
    assumptions: Texts = ()
    stream: str | None = None


class _Experiment(_Group):  # see `plan` and `sweep`
    datasets: Texts
    methods: Texts = ()
    problem: str | None = None
    scalings: Scalings | None = None
    epsilons: Mapping[str, Budgets | Mapping[str, Budgets]] = {}
    budgets_per_unit: Positive | None = None
    vary: Mapping[str, Mapping[str, Any] | None] | None = None
    settings: Mapping[str, Mapping[str, Any]] | None = None
    runs: Mapping[str, _RunConfig] | None = None
    block: str = ""
    seeds: Positive | Mapping[str, Positive] | None = None
    delta: Delta | Literal["1/n^2"] | None = None  # the smaller of 1/n^2 and conf/config.yaml's
    calibrated: Literal["promised", "proven"] = "promised"  # what `epsilons` are
    price_neighbours: Literal["add_remove", "replace_one"] | None = None  # None: each method's own
    prices: Sequence[Literal["neighbours", "ryffel2022", "last_iterate"]] = ()
    formula: Entry | None = None
    attack: Entry | None = None
    observers: Mapping[str, Entry] = {}
    stream: str | None = None
    paired: bool = False  # whether chains with Poisson and with subset sampling see the same rows and noise
    one_budget_per_task: bool = False  # whether each task is computed alone, as for networks
    compared: bool = False  # whether releases are compared with the exact posterior
    metrics: bool = False
    noise: Literal["float32", "float64"] = "float64"  # of chains, see `random.noise`
    assumptions: Texts = ()


class _Reference(_Group):  # settings of the exact posteriors, see `reference`
    datasets: Texts
    problem: str
    scalings: Scalings
    precision: PositiveFloat
    predictive: Positive
    sampler: Entry


class Config(_Group):
    """The whole of `params.yaml`."""

    seed: Annotated[int, Field(ge=0)]
    delta: Delta
    repeats: Positive
    splits: Positive
    scale: str
    attack_runs: Mapping[str, Positive]
    reference: _Reference
    pipeline: Mapping[str, Texts | Mapping[str, Any]]  # `config.stages`
    dataset: Mapping[str, _Dataset]
    experiment: Mapping[str, _Experiment]
    problem: Mapping[str, Entry]
    accountant: Mapping[str, Entry]
    method: Mapping[str, Entry]
    analysis: Mapping[str, Entry]
    weights: Mapping[str, _Weights] = {}
    backbone: Mapping[str, Entry] = {}
    pretrain: Mapping[str, _Pretrain] = {}
    features: Mapping[str, _Features] = {}
