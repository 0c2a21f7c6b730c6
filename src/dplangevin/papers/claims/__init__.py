"""Tests of the papers' claims against our results.

`conf/claim/` has one entry for each claim. Each entry names one rule of this package as its `test`. A rule
takes the frame of results and returns a `verdicts.Verdict`. It raises `verdicts.NoRows` if the frame lacks
the rows that the claim is about.
"""
