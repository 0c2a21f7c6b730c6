"""Worst-case pairs of neighbouring data sets, one file per kind of mechanism, and statistics that tell them apart.

Each function returns ``(first, second)``: one statistic for every run, on either data set, as `audit` takes them.
"""
