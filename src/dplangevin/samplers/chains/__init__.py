"""Chains of noisy clipped gradient steps.

`sampling` decides which rows a step uses, `steps` gives step sizes, and `chain` is the one loop.
"""
