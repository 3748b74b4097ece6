"""Edit items, and declare what each edit should do to an answer (its contract). All is pure.

record an edit and its contract surface format, placebo and paraphrases plan the edits of every
sampled item, without edits that change nothing file the edits of a run beside its shards
"""
