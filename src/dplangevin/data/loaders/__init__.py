"""Loaders from raw files (or a random generator) to a `Dataset`.

Each source has one module. `table` loads any table of numbers.
"""
