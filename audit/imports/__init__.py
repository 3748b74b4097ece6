"""Import finished evaluations of other tools as a run. Readers parse the logs, items are joined by
their content, and the result is written as shards.
"""
