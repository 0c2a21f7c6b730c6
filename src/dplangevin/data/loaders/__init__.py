"""Loaders from raw files, or a random generator, to a `Dataset`: one module for each source."""
