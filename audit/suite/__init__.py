"""Define and run suites.

A suite states which audits are run of which pinned model on which data, with which thresholds, and
which rule decides.
"""
