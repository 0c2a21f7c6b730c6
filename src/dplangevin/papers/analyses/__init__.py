"""Computations that need no prepared data set; each is a dataclass of the numbers in `conf/analysis/<id>.yaml`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pandas as pd
from hydra.utils import instantiate
from tqdm import tqdm

from dplangevin.files import key
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.code import code_hash, targets
from dplangevin.pipeline.executor import TaskTables, computed


class Analysis(Protocol):
    """An analysis: `units` names its independent tasks in order, `rows` returns the tidy rows of one task."""

    def units(self) -> Sequence[str]: ...

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]: ...


def run(spec: Mapping[str, Any], seed: int, store: Store) -> list[str]:
    """Compute the tasks that `store` lacks, also after one has failed, and return the keys of all in order.

    DPL_WORKERS sets the number of processes (default: the cores). The rows do not depend on it.
    """
    analysis: Analysis = instantiate(spec, _convert_="all")
    code = targets(spec)
    inputs = {"code": code_hash(__name__, *code), "seed": seed, "analysis": spec}
    units = list(analysis.units())
    keys = [key([inputs, unit]) for unit in units]
    missing = [(name, unit) for name, unit in zip(keys, units, strict=True) if not store.find(name)]
    function = partial(_rows, analysis, seed, store.paths[0].stem)
    of_tasks = [[name] for name, _ in missing]
    called = computed(
        function, [unit for _, unit in missing], code=[__name__, *code], store=store, keys=of_tasks
    )
    failed: dict[int, Exception] = {}
    for done in tqdm(called, total=len(missing), unit="task", disable=None if missing else True):
        if done.error is not None:
            failed[done.number] = done.error
    if failed:
        raise failed[min(failed)]
    return keys


def _rows(analysis: Analysis, seed: int, table: str, unit: str) -> list[TaskTables]:
    return [TaskTables({table: pd.DataFrame(analysis.rows(unit, seed))})]
