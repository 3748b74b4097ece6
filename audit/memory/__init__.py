"""Test whether a model has read the items: by their order, their text, and its score on held-out
items.

items      the texts that are given to the model
audit      the record that the pipeline runs
cells      shards -> records
record     results of one model and of its references
evidence   every statistic of one cell
gates      checks of the measurement
decide     evidence and gates -> one of six verdicts
texts      the plain sentences
analyse    cells -> results, corrected over the panel, with the nearest calibrated design
calibrate  models of known truth, judged by the same tests
"""
