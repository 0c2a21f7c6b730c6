"""The privacy cost of the last iterate of DP-Langevin (ryffel2022, Theorem 3.1), for replace_one neighbours.

- theorem, theorem_epochs: Theorem 3.1 with K counted in steps, or in passes as the authors' code counts (claimed);
- composition: the paper's baseline, alpha L^2/(n^2 sigma^2) sum_k eta_k, with an averaged sensitivity (claimed);
- all_iterates: PLD of every step, batches sampled without replacement (upper);
- last_iterate: Bok, Su, Altschuler (2024), iterates hidden (upper);
- audit: exact for one pair that the theorem's hypotheses admit, from the initial law of the theorem (lower).

The theorem holds only for full batches, see `counterexample`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        if kind == "published":
            rows = self._published(setting)
        elif kind == "calibrated":
            rows = self._calibrated(setting)
        else:
            rows = self._curve(setting, _size(kind, setting))
        return [{"setting": name, **row} for row in rows]

    def _curve(self, setting: Setting, batch: int) -> list[dict[str, Any]]:
        theirs = setting.steps(batch)
        return [
            row
            for steps in sorted({*self.steps, theirs})
            if steps <= max(self.steps)
            for row in self._rows("curve", "constant", setting.event(batch, steps), setting.delta, CURVE)
        ]

    def _published(self, setting: Setting) -> list[dict[str, Any]]:
        rows = []
        for schedule in ("constant", "decreasing"):
            event = setting.event(self.batch, setting.steps(self.batch), schedule)
            rows += self._rows("published", schedule, event, setting.delta, PUBLISHED)
        return rows

    def _calibrated(self, setting: Setting) -> list[dict[str, Any]]:
        rows = []
        for batch in (_size(kind, setting) for kind in self.batches):
            event = setting.event(batch, setting.steps(batch))
            noise = noise_for(
                Ryffel2022(),
                lambda noise, event=event: attr.evolve(event, noise_std=noise),  # type: ignore[misc]
                Budget(self.target, setting.delta),
                low=setting.noise_std / 100,
                high=setting.noise_std * 1e4,
            )
            event = attr.evolve(event, noise_std=noise)
            rows += self._rows("calibrated", "constant", event, setting.delta, ("theorem", "all_iterates"))
        return rows

    def _rows(
        self, kind: str, schedule: str, event: LangevinDpEvent, delta: float, names: Sequence[str]
    ) -> list[dict[str, Any]]:
        fixed = {
            "kind": kind,
            "schedule": schedule,
            "batch": event.batch,
            "records": event.records,
            "steps": event.steps,
            "epochs": event.steps * event.batch / event.records,
            "step_size": event.step_size,
            "noise_std": event.noise_std,
            "lipschitz": event.lipschitz,
            "delta": delta,
        }
        rows = []
        for name in names:
            epsilon, sense, note = self._price(name, event, delta)
            rows.append({**fixed, "quantity": name, "epsilon": epsilon, "sense": sense, "note": note})
        return rows

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
