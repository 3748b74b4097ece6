"""Suites: which audits are run of which pinned model on which data, by what thresholds, and what decides.

schema: what a suite says (suite.schema.json says which values).   read: a YAML or JSON file -> a suite, or why not.
commands: the words that each audit's command is given, and what they would cost.
judge: the verdict, and the source's thresholds.
run: the audits one after the other on one engine, the report of all, the decision.
"""
