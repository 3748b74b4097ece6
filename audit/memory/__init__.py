"""The memory audit: has the model read these items? By their order, their text, and its score on held-out ones.

texts      what is given to the model to read        present   the same, as requests
record     what one model gave, beside its reference models      cells    shards -> records
evidence   every statistic of one cell               gates     can this measurement carry a verdict?
decide     evidence and gates -> one of five verdicts       words     the plain sentences
calibrate  models of known truth through the same tests
analyse    cells -> results, corrected over the panel, beside the nearest measured design
"""
