"""Layers run by hand, forward and backward, with the gradients of single examples: see clipped.py."""
