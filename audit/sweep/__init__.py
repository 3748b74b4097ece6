"""The router-worker sweep (song2026): routers rewrite the question, a worker answers from their messages alone.

design     arms, draws, router sets, thresholds              config      what can be set, validated
audit      the record that the pipeline runs, prompts        replay      messages of an earlier run, answered again
plan, size  what a run would cost and could find
messages   what routers did to the question (statements)     texts       the plain sentences, by code
record     clean and noisy, item by item; noise of runs      compare     one arm against another
evidence   every statistic of one cell                       contrasts   the comparisons that are printed beside it
gates      can this measurement carry a verdict?             self_test   do they notice faults?
decide     evidence and gates -> one of seven verdicts       analyse     cells -> the run's verdict
calibrate  models of known truth through the same verdict
paper      the paper's numbers and hypotheses (its published table: audit.papers.song2026)
vocabulary what is said of a cell, and in which words      simulation its models
report, page, figures, drill: what a person sees

`python -m audit.sweep model=llama3_70b r=1..9`
"""
