"""Audit construct validity: do answers move when the construct changes, and stay when only the
surface does?

    edits      what is changed in an item, and the contract of each change (pure)
    record     what one model answered on one benchmark in one context
    evidence   every statistic of it
    gates      G1 to G6: can this measurement carry a status?
    faults     G6: each known fault, injected
    decide     evidence and gates -> one status, beside the paper's
    texts      the plain sentences
    calibrate  the procedure's own error rates
    analyse    cells -> results, over the panel
"""
