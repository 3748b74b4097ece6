"""Edit items, and declare what each edit should do to an answer (its contract). Pure: items and
texts in, edits out.

    record    what an edit is, and its contract
    surface   format, placebo and paraphrases
    plan      the edits of every sampled item, attribute edits looked up, no-ops replaced and counted; ten items shown
    file      the edits of a run beside its shards
"""
