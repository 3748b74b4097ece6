"""Import finished evaluations of other tools as a run.

Readers parse the logs. The items of several logs are joined by their content. The result is written
as shards.
"""
