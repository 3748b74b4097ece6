"""Test whether the score falls when the questions are reworded, and by more than it should.

report     shards -> cells -> report
record     answers of one model and its references to originals and rewordings, with unparsed ones imputed
evidence   every statistic of one cell, with held-out items as a control
gates      checks of the measurement
decide     evidence and gates -> one of five verdicts
texts      the plain sentences
calibrate  models of known truth (worlds), judged by the same tests
analyse    cells -> results, corrected over the panel, with the nearest calibrated design
"""
