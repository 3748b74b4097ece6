"""Measure how a model's accuracy changes when routers damage its questions.

This is the router-worker sweep of song2026.

Routers rewrite each question, and a worker answers from the routers' messages only. If the accuracy
rises although the messages are damaged, the model may be answering from memory.

design      defines the arms, draws, router sets and thresholds
config      defines and checks the options
audit       defines the audit for the pipeline, and fills the prompts
replay      lets another model answer from the messages of an earlier run
plan, size  compute the cost of a run, and the gain that it could detect
messages    measures what the routers did to the questions
record      pairs clean and noisy outcomes, and estimates the run variance
compare     compares two arms
evidence    computes every statistic of one cell
contrasts   makes the table of comparisons
gates       checks the measurement
self_test   injects faults that the gates must catch
decide      makes one of seven verdicts from evidence and gates
analyse     judges all cells of a run
simulation  draws models whose true gain is known
calibrate   measures the error rates on these models
paper       computes the paper's numbers (its published table is in audit.papers.song2026)
vocabulary  defines the verdicts, the results and their display texts
texts       defines all sentences by code
report      reads the shards and judges a run
page, figures, drill  build the page

`python -m audit.sweep model=llama3_70b r=1..9`
"""
