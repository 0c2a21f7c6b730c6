"""An audit of a private learner by anybody: an object with `fit`, or a function of data and a seed.

`search.audited` is the audit. The attack epsilon is a lower bound for the learner's own code. An audit that finds
nothing proves nothing.
"""
