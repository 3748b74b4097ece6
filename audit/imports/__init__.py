"""Finished evaluations of other tools, read in as a run: readers (pure), items joined by content,
shards written."""
