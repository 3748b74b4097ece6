"""Audit construct validity: whether answers change with the construct, and only with it.

edits edits of an item, and what each edit should do to the answer (pure) record the answers of
one model on one benchmark in one context evidence every statistic of these answers gates G1 to
G6, which check whether the measurement can carry a status faults G6, which injects each known
fault decide evidence and gates -> one status, beside the status of the paper texts the
sentences of reasons and headlines calibrate error rates of the whole procedure analyse cells ->
results, over the panel
"""
