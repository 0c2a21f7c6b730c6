"""Computations that need no data set: what a theorem charges, what a sampler targets, what an attack sees.

One module per analysis, a frozen dataclass whose fields are the numbers of `conf/analysis/<id>.yaml`. Its work is cut
into units, each kept when it is finished.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pandas as pd
from hydra.utils import instantiate
from joblib import Parallel, delayed
from tqdm import tqdm

from dplangevin.cache import Store, code_hash, key, targets, workers


class Analysis(Protocol):
    """units: names of independent pieces of work, in order. rows: the tidy rows of one piece."""

    def units(self) -> Sequence[str]: ...

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]: ...


def run(spec: Mapping[str, Any], seed: int, store: Store) -> list[str]:
    """Finish all units of the analysis that `spec` (`_target_` and arguments) describes; their keys, in order.

    Units run on as many processes as the environment variable DPL_WORKERS says, or as there are cores; the rows do not
    depend on it.
    """
    analysis: Analysis = instantiate(spec, _convert_="all")
    inputs = {"code": code_hash(__name__, *targets(spec)), "seed": seed, "analysis": spec}
    units = list(analysis.units())
    keys = [key([inputs, unit]) for unit in units]
    missing = [(name, unit) for name, unit in zip(keys, units, strict=True) if not store.find(name)]
    if missing:
        pool = Parallel(n_jobs=min(workers(), len(missing)), return_as="generator")
        done = pool(delayed(_unit)(analysis, unit, seed, store, name) for name, unit in missing)
        for _ in tqdm(done, total=len(missing), unit="unit", disable=None):
            pass
    return keys


def _unit(analysis: Analysis, unit: str, seed: int, store: Store, name: str) -> None:
    store.keep(name, pd.DataFrame(analysis.rows(unit, seed)))
