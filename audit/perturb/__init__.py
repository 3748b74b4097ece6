"""The semantic-perturbation audit: does the score fall when the questions are reworded, and by more than it should?

report     shards -> cells -> report
record     what one model answered on one benchmark, originals and rewordings, beside its reference models; what a
           finding is worth where unread answers speak against it
evidence   every statistic of one cell, and the held-out items as a control
gates      can this measurement carry a verdict?
decide     evidence and gates -> one of five verdicts      texts    the plain sentences
calibrate  models of known truth (worlds) through the same tests
analyse    cells -> results, corrected over the panel, beside the nearest measured design
"""
