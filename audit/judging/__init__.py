"""Grade the contrasts of every audit in the same way, and define verdict.json as a typed model.

The package does no I/O except for reading verdict.json.
"""
