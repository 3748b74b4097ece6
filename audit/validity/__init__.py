"""Test construct validity: answers should change with the content of a question, and not with its
form.

edits      edits of an item, and what each edit should do to the answer
record     the answers of one model on one benchmark in one context
evidence   all statistics of these answers
gates      the checks G1 to G6, and further ones
faults     gate G6, which injects each known fault and tests its check
decide     the status, from evidence and gates
status     the status by the algorithm of the paper (li2026)
texts      the sentences of the report, by code
calibrate  error rates of the procedure, on simulated answers
analyse    judge cells, correct over the panel, quote the nearest calibrated design
"""
