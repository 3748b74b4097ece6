"""The router-worker sweep (song2026): routers rewrite the question, a worker answers from their messages alone.

design     arms, draws, router sets                          config      what can be set, validated
present    router and worker prompts                         columns     its own columns of a row
audit      the record that the pipeline runs                 plan        what a run would cost and could find
rows       two passes over the shards                        texts       what routers did to the question
record     clean baseline and noisy settings, item by item   runs        what repeated runs tell of noise
evidence   every statistic of one cell                       compare     one arm against another
gates      can this measurement carry a verdict?             self_test   do they notice faults?
decide     evidence and gates -> one of seven verdicts       words       the plain sentences
analyse    cells -> the run's verdict                        early       may a run stop here?
calibrate  models of known truth through the same verdict    calibrated  the nearest measured design
paper, hypotheses: the paper's numbers and hypotheses (its published table: audit.papers.song2026)
report, page, tables, figures, forest, drill: what a person sees

`python -m audit.sweep model=llama3_70b r=1..9`
"""
