"""Layers run by hand, forward and backward, with the gradients of single examples: the inside of `gradients`."""
