"""Figures and tables: pure functions of the frames that `reporting.read` returns."""
