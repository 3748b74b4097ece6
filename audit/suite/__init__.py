"""Define and run suites.

A suite is a file that states a pinned model, the audits of this model, their data and thresholds,
and the rule that decides.
"""
