"""Chains of noisy clipped gradient steps: how rows are drawn (`sampling`) and the one loop (`chain`)."""
