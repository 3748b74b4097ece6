"""Measure what a model gains when routers damage its questions: the router-worker sweep (song2026).

Routers rewrite the question, and a worker answers from their messages alone.

design     arms, draws, router sets, thresholds
config     the options, validated
audit      the record that the pipeline runs, and the prompts
replay     answers of another model to the messages of an earlier run
plan, size  cost of a run, and the gain that it could detect
messages   effect of the routers on the question (statements)
texts      the plain sentences, by code
record     clean and noisy outcomes by item; run variance
compare    comparison of two arms
evidence   every statistic of one cell
contrasts  the comparisons in the table beside a verdict
gates      checks of the measurement
self_test  faults that the gates must notice
decide     evidence and gates -> one of seven verdicts
analyse    cells -> the verdict of the run
calibrate  models of known truth, judged by the same procedure; simulation makes them
paper      the paper's numbers and hypotheses (its published table: audit.papers.song2026)
vocabulary the verdicts, the results and their names
report, page, figures, drill: the report

`python -m audit.sweep model=llama3_70b r=1..9`
"""
