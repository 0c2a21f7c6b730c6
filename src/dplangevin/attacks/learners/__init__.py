"""An audit of a private learner by anybody: an object with `fit`, or a function of data and a seed.

`search.audited` is the audit.  `sandbox` makes pairs of neighbouring tables, `releases` fits and collects
what is released, `statistics` learns what tells two tables apart, `observations` are checks that need no
statistics, and `script` writes a program that shows a violation without this package.

The attack epsilon is a lower bound for the learner's own code.  An audit that finds nothing proves nothing.
"""
