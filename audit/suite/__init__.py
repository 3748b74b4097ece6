"""Suites: which audits are run of which pinned model on which data, by what thresholds, and what
decides."""
