"""Worst-case pairs of neighbouring data sets, one file per kind of mechanism, and statistics that tell them apart.

Two notions, which no table or caption may mix:

* An attack on a theorem's *hypotheses* takes any loss that they admit: `langevin`, any L-Lipschitz, strongly convex,
  smooth one, here linear with gradients that differ by 2 L; `sampled`, gradients of any direction up to the clip.  What
  it shows refutes or supports a theorem or a price, whatever the data.
* An attack on a *row* takes neighbours that the row's own problem admits, through the step that trained it: `softmax`.
  Only what it shows may stand beside that row's accuracy.

Each function returns ``(first, second)``: one statistic for every run, on either data set, as `audit` takes them.
"""
