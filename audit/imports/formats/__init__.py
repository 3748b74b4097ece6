"""Readers of the logs of other programs: one file a format."""
