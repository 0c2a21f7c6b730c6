"""Worst-case pairs of neighbouring data sets, one file for each kind of mechanism, with statistics (docs/audit.md).

No table or caption may mix attacks on the *hypotheses* of a theorem (`dp_langevin`, `sampled`) with attacks on a
*result row* (`softmax`): only the latter may be shown beside the accuracy of that row. Attacks by runs return
``(first, second)``: one statistic for every run on each data set, as `audit` takes them.
"""
