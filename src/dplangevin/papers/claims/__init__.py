"""Tests of the papers' claims: each entry of `conf/claim/` names one rule of this package as its `test`."""
