"""The memory audit: has the model read these items? By their order, their text, and its score on held-out ones.

items      the texts that are given to the model     audit     the same, as requests
cells      shards -> records                         record    what one model gave, beside its reference models
evidence   every statistic of one cell               gates     can this measurement carry a verdict?
decide     evidence and gates -> one of six verdicts texts     the plain sentences
analyse    cells -> results, corrected over the panel, beside the nearest measured design
calibrate  models of known truth through the same tests
"""
