"""Which learner to use, from public facts alone: the leaderboard's results on tables of the same kind and size.

Only held-out tables count, on which no setting of a learner was chosen.  `leaderboard.csv` beside this module has a
row for each group of these tables and learner.  docs/leaderboard.md shows the same choice.  The exhibit `leaderboard`
has the results that `python pipelines/report.py recommend` makes it from.  Records and budget matter
through ``records epsilon/columns``, with the columns after encoding.

>>> size_of(records=1000, features=5, epsilon=1.0)
'middle'
"""

import csv
import math
from importlib.resources import files
from typing import Any, NamedTuple

from dplangevin.checks import count, positive, real
from dplangevin.text import number, short

#: Size of a table -> the value of records epsilon/columns below which it has this size.
SIZES = {"small": 100.0, "middle": 1000.0, "large": math.inf}
KINDS = "two", "more"  # classes
SIMPLEST = "dp_gd"  # named unless another learner is ahead by more than chance
STANDINGS = "leaderboard.csv"
COLUMNS = ["kind", "size", "method", "tables", "distance", "low", "high", "chosen"]


class Standing(NamedTuple):
    """The result of a learner on the held-out tables of a group.

    Attributes
    ----------
    method : str, a name in `dplangevin.METHODS`.
    tables : int, number of tables.
    distance : float, mean accuracy without privacy minus that of the learner.  A share, not points.
    low, high : float, its 95 % interval over tables; nan for a single table.
    """

    method: str
    tables: int
    distance: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The distance in words."""
        text = f"{points(self.distance)} points of accuracy"
        if math.isnan(self.low):
            return f"{text} (one table)"
        return f"{text} (95 % interval {points(self.low)} to {points(self.high)}, {self.tables} tables)"


class Recommendation(NamedTuple):
    """A learner, and why.

    Attributes
    ----------
    method : str, a name in `dplangevin.METHODS`.
    reason : str, why, in one or two sentences.
    group : str, the tables that the reason is about.
    standings : list of Standing, of all learners on these tables, the nearest to no privacy first.  [] if the
        leaderboard has no such table.
    """

    method: str
    reason: str
    group: str
    standings: list[Standing]


def recommend(records: int, features: int, classes: int, epsilon: float) -> Recommendation:
    """Return the learner that is the nearest to no privacy on the leaderboard's tables of the same kind and size.

    It is dp_gd, the simplest learner, unless a paired test over tables puts another one ahead of it.

    Parameters
    ----------
    records : int >= 1
        Number of records; it is taken as public.
    features : int >= 1
        Number of columns after encoding, with the bias.
    classes : int >= 2
    epsilon : float > 0
        Proven epsilon, for a replaced record.

    Raises
    ------
    ValueError
        For an argument out of its domain.

    Examples
    --------
    >>> recommend(records=30_000, features=100, classes=2, epsilon=1.0).group
    'held-out tables of two classes with records × ε / columns from 100 to 1000 (yours: 300)'
    """
    count(1, records=records, features=features)
    count(2, classes=classes)
    positive(epsilon=real(epsilon=epsilon))
    kind, size = kind_of(classes), size_of(records, features, epsilon)
    yours = short(records * epsilon / features)
    group = f"held-out tables of {classes_of(kind)} classes with records × ε / columns {limits(size)} (yours: {yours})"
    rows = [row for row in _rows() if (row["kind"], row["size"]) == (kind, size)]
    standings = sorted((_standing(row) for row in rows), key=lambda each: (-each.tables, each.distance))
    chosen = next((each for row in rows if row["chosen"] == "True" for each in [_standing(row)]), None)
    if chosen is None:
        reason = f"The leaderboard has no {group}. {SIMPLEST} is the simplest learner."
        return Recommendation(SIMPLEST, reason, group, [])
    reason = f"On {group} its distance to no privacy is {chosen.text}."
    first = next(each for each in standings if each.tables == chosen.tables)
    if chosen.method != SIMPLEST and any(each.method == SIMPLEST for each in standings):
        reason += f" It is ahead of {SIMPLEST}, the simplest learner, by more than chance."
    if first.method != chosen.method:
        reason += f" That of {first.method} is {first.text}. The two cannot be told apart, "
        reason += f"and {chosen.method} is simpler."
    return Recommendation(chosen.method, reason, group, standings)


def kind_of(classes: int) -> str:
    """Return "two" for two classes, "more" for more."""
    return "two" if classes == 2 else "more"


def classes_of(kind: str) -> str:
    """Return in words how many classes the tables of a kind have."""
    return "two" if kind == "two" else "more than two"


def size_of(records: float, features: float, epsilon: float) -> str:
    """Return the size in `SIZES` of a table with a budget."""
    return next(size for size, limit in SIZES.items() if records * epsilon / features < limit)


def _rows() -> list[dict[str, str]]:
    """Return the rows of the packaged file."""
    return [*csv.DictReader((files("dplangevin") / STANDINGS).read_text(encoding="utf-8").splitlines())]


def _standing(row: dict[str, Any]) -> Standing:
    distance, low, high = (float(row[name] or "nan") for name in ("distance", "low", "high"))
    return Standing(row["method"], int(row["tables"]), distance, low, high)


def limits(size: str) -> str:
    """Return in words which values of records epsilon/columns have this size."""
    names = [*SIZES]
    low = SIZES[names[names.index(size) - 1]] if size != names[0] else 0.0
    if not low:
        return f"below {number(SIZES[size])}"
    return (
        f"of {number(low)} or more"
        if math.isinf(SIZES[size])
        else f"from {number(low)} to {number(SIZES[size])}"
    )


def points(share: float) -> str:
    """Return a share as points of accuracy, with two decimals."""
    return f"{round(100 * share, 2) + 0.0:.2f}".replace("-", "−")
