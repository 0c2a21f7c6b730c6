"""Chains of noisy clipped gradient steps.

`loop` is the one loop that adds noise, and `steps` gives step sizes.  `problems.sampling` decides which rows a
step uses.
"""
