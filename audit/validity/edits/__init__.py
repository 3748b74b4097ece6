"""Edits of items, and what each should do to an answer (its contract). Pure: items and texts in, edits out.

record    what an edit is, and its contract             surface   format, placebo and paraphrases
partners  attribute edits, looked up and never invented
plan      the edits of every sampled item, no-ops replaced and counted; ten items with all their edits
file      the edits of a run beside its shards
"""
