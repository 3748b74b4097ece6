"""Test whether the score falls when the questions are reworded, and whether causes other than
memory explain the fall.

report     read shards into cells, judge them, build the report
record     answers of one model and its references to originals and rewordings
evidence   all statistics of one cell (one model on one benchmark)
gates      checks of the measurement
decide     the verdict, from evidence and gates
texts      the sentences of the report, by code
calibrate  judge simulated models of known truth (worlds) by the same tests
analyse    judge cells, correct p-values over the panel, quote the nearest calibrated design
"""
