"""The semantic-perturbation audit: does the score fall when the questions are reworded, and by more than it should?

rows       two passes over the shards
record     what one model answered on one benchmark, originals and rewordings, beside its reference models
evidence   every statistic of one cell, and the held-out items as a control
gates      can this measurement carry a verdict?
decide     evidence and gates -> one of five verdicts      texts    the plain sentences
unread     answers that were asked and not read: what a finding is worth where they speak against it
calibrate  models of known truth (worlds) through the same tests
analyse    cells -> results, corrected over the panel, beside the nearest measured design
"""
