"""Test whether a model has read the items of a benchmark.

Three kinds of evidence are used: the likelihood of the order of the items, the likelihood of their
text, and the gap between the scores on the benchmark and on held-out items.

items      texts that are sent to the model
audit      the record of this audit that the run uses
cells      read shards into records
record     results of one model and its references
evidence   all statistics of one cell (one model on one benchmark)
gates      checks of the measurement
decide     the verdict, from evidence and gates
texts      the sentences of the report, by code
analyse    judge cells, correct p-values over the panel, quote the nearest calibrated design
calibrate  judge simulated models of known truth by the same tests
"""
