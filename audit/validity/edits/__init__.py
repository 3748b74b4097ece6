"""Make edits of items, and declare what each edit should do to an answer (its contract).

record     an edit and its contract
surface    format edits, the placebo, and paraphrases
plan       the edits of every sampled item, without edits that change nothing
file       read and write the edits of a run, beside its shards
"""
