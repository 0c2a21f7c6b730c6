"""The privacy cost of the last iterate of DP-Langevin (ryffel2022, Theorem 3.1), for replace_one neighbours.

- theorem, theorem_epochs: Theorem 3.1 with K counted in steps, or in passes as the authors' code counts (claimed);
- composition: the paper's baseline, alpha L^2/(n^2 sigma^2) sum_k eta_k, with an averaged sensitivity (claimed);
- all_iterates: PLD of every step, batches sampled without replacement (upper);
- last_iterate: Bok, Su, Altschuler (2024), iterates hidden (upper);
- audit: exact for one pair that the theorem's hypotheses admit, from the initial law of the theorem (lower).

The theorem holds only for full batches, see `counterexample`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import attr

from dplangevin.attacks.dp_langevin import worst_epsilon
from dplangevin.papers.analyses.langevin import Setting, averaged_composition, one_step
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import noise_for
from dplangevin.privacy.events import Budget, LangevinDpEvent

Batch = int | Literal["full"]
CURVE = ("theorem", "composition", "all_iterates")
PUBLISHED = ("theorem", "theorem_epochs", "composition", "all_iterates", "last_iterate", "audit")


@dataclass(frozen=True)
class LangevinPrivacy:
    """Epsilon against the number of steps ("<setting>/<batch>"), at the published settings, and after a calibration.

    "<setting>/calibrated": sigma at which Theorem 3.1, with K in steps, gives `target`, for every batch size.
    """

    settings: Mapping[str, Setting]  # the authors'
    batch: int  # the authors'
    batches: Sequence[Batch]
    steps: Sequence[int]  # of the curves
    target: float  # the epsilon of the calibration
    ceiling: float  # if one step alone costs at least this epsilon, it replaces the upper bounds

    def units(self) -> list[str]:
        kinds = [*map(str, self.batches), "published", "calibrated"]
        return [f"{name}/{kind}" for name in self.settings for kind in kinds]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        name, kind = unit.split("/")
        setting = self.settings[name]
        rows = (row for case in self._cases(kind, setting) for row in self._rows(*case, setting.delta))
        return [{"setting": name, **row} for row in rows]

    def _cases(
        self, kind: str, setting: Setting
    ) -> Iterator[tuple[str, str, LangevinDpEvent, Sequence[str]]]:
        """Yield the kind of some rows, their schedule, the event, and the quantities to compute."""
        if kind == "published":
            for schedule in ("constant", "decreasing"):
                event = setting.event(self.batch, setting.steps(self.batch), schedule)
                yield kind, schedule, event, PUBLISHED
        elif kind == "calibrated":
            for batch in (_size(each, setting) for each in self.batches):
                yield kind, "constant", self._calibrated(setting, batch), ("theorem", "all_iterates")
        else:
            batch = _size(kind, setting)
            for steps in sorted({*self.steps, setting.steps(batch)}):
                if steps <= max(self.steps):
                    yield "curve", "constant", setting.event(batch, steps), CURVE

    def _calibrated(self, setting: Setting, batch: int) -> LangevinDpEvent:
        event = setting.event(batch, setting.steps(batch))
        budget, low, high = (
            Budget(self.target, setting.delta),
            setting.noise_std / 100,
            setting.noise_std * 1e4,
        )
        make = partial(attr.evolve, event)
        noise = noise_for(Ryffel2022(), lambda noise: make(noise_std=noise), budget, low=low, high=high)
        return make(noise_std=noise)

    def _rows(
        self, kind: str, schedule: str, event: LangevinDpEvent, names: Sequence[str], delta: float
    ) -> Iterator[dict[str, Any]]:
        epochs = {"epochs": event.steps * event.batch / event.records}
        fixed = {"kind": kind, "schedule": schedule} | _fields(event, "batch", "records", "steps") | epochs
        fixed |= {**_fields(event, "step_size", "noise_std", "lipschitz"), "delta": delta}
        for name in names:
            epsilon, sense, note = self._price(name, event, delta)
            yield {**fixed, "quantity": name, "epsilon": epsilon, "sense": sense, "note": note}

    def _price(self, name: str, event: LangevinDpEvent, delta: float) -> tuple[float, str, str]:
        """Return epsilon, its sense and a note."""
        if name == "theorem":
            return Ryffel2022().epsilon(event, delta), "claimed", ""
        if name == "theorem_epochs":
            passes = round(event.steps * event.batch / event.records)
            return Ryffel2022().epsilon(attr.evolve(event, steps=passes), delta), "claimed", f"K = {passes}"
        if name == "composition":
            return averaged_composition(event, delta), "claimed", ""
        if name == "audit":
            return worst_epsilon(event, delta), "lower", "exact for one pair of data sets"
        if event.batch < event.records and (least := one_step(event, delta)) >= self.ceiling:
            return least, "lower", "the price of one step alone"
        accountant: Accountant = Bok2024() if name == "last_iterate" else Tight()
        priced = event if name == "last_iterate" else event.all_iterates()
        return accountant.epsilon(priced, delta), "upper", ""


def _size(kind: str | int, setting: Setting) -> int:
    return setting.records if kind == "full" else int(kind)


def _fields(event: LangevinDpEvent, *names: str) -> dict[str, Any]:
    return {name: getattr(event, name) for name in names}
