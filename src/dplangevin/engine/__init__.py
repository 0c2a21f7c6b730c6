"""Layers that are run by hand, forward and backward, for the gradients of single examples: see clipped.py."""
