"""Derive grades from the results of every audit by the same rules, and define verdict.json as a
typed model.

The package does no I/O except for reading verdict.json.
"""
