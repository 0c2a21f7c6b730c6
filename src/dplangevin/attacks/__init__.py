"""Worst-case pairs of neighbouring data sets, one file for each kind of mechanism, with statistics.

An attack gives an attack ε (lower bound). There are two kinds of attack. No table or caption may mix them:

* An attack on the *hypotheses* of a theorem may use any loss that they admit (`langevin`, `sampled`). It refutes or
  supports a theorem or a price, whatever the data.
* An attack on a *result row* uses neighbours that the row's own problem admits, through the step that trained it:
  `softmax`. Only this result may be shown beside the accuracy of that row.

`worst` finds the pair that attacks the price of an event. Attacks by runs return ``(first, second)``: one statistic
for every run on each data set, as `audit` takes them.
"""
