"""Computations that need no data set: what a theorem charges, what a sampler targets, what an attack sees.

One module per analysis, a frozen dataclass whose fields are the numbers of `conf/analysis/<id>.yaml`. Its work is cut
into units, each kept when it is finished.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pandas as pd
from hydra.utils import instantiate
from tqdm import tqdm

from dplangevin.cache import Store, code_hash, key, targets
from dplangevin.executor import computed


class Analysis(Protocol):
    """units: names of independent pieces of work, in order. rows: the tidy rows of one piece."""

    def units(self) -> Sequence[str]: ...

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]: ...


def run(spec: Mapping[str, Any], seed: int, store: Store) -> list[str]:
    """Finish all units of the analysis that `spec` (`_target_` and arguments) describes; their keys, in order.

    Units run on as many processes as the environment variable DPL_WORKERS says, or as there are cores, or on a cluster;
    the rows do not depend on it.  Where units fail the others are finished; then the first error is raised.
    """
    analysis: Analysis = instantiate(spec, _convert_="all")
    code = targets(spec)
    inputs = {"code": code_hash(__name__, *code), "seed": seed, "analysis": spec}
    units = list(analysis.units())
    keys = [key([inputs, unit]) for unit in units]
    missing = [(name, unit) for name, unit in zip(keys, units, strict=True) if not store.find(name)]
    failed: dict[int, Exception] = {}
    if missing:
        called = computed(partial(_rows, analysis, seed), [unit for _, unit in missing], code=code)
        for done in tqdm(called, total=len(missing), unit="unit", disable=None):
            if done.value is None:
                assert done.error is not None
                failed[done.place] = done.error
            else:
                store.keep(missing[done.place][0], done.value, made=done.made)
    if failed:
        raise failed[min(failed)]
    return keys


def _rows(analysis: Analysis, seed: int, unit: str) -> pd.DataFrame:
    return pd.DataFrame(analysis.rows(unit, seed))
