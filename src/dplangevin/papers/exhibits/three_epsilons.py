"""Promised, proven and attack ε of the papers' promises, with a verdict on each."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.row_rules import guarantee

SMALLEST = 1e-3  # ε below which an attack ε is not drawn


def judged(frame: pd.DataFrame, *, cases: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows with verdict, word and reason; `cases` are ids of promises of which one case was priced.

    The column known begins a bar from the attack ε, or from left of SMALLEST if none above it is known.
    """
    settings = ["special case" if name in cases else "paper" for name in frame.id]
    tested = zip((guarantee(frame, id=name) for name in frame.id), settings, strict=True)
    found = [verdicts.claim_verdict(each, kind="paper", setting=setting) for each, setting in tested]
    attack = frame.epsilon_attack.where(frame.epsilon_attack.gt(SMALLEST))
    return frame.assign(
        verdict=[verdict["verdict"] for verdict in found],
        reason=[verdict["reason"] for verdict in found],
        word=[tally.word(verdict) for verdict in found],
        attack=attack.where(frame.attack_runs.ne(0)),
        exact=attack.where(frame.attack_runs.eq(0)),
        violated="",  # what the verdict says
        known=attack.fillna(SMALLEST / 1.5),
        priced=int((frame.epsilon_claimed.notna() & frame.mechanism.notna()).sum()),
    )
