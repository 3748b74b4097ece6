"""Governance: what follows from a verdict, what people decide about it, and the pack that somebody else can check.

ruling: what the folder of a run, panel or suite comes to, and deciding on it.   formats: a ruling as text, JSON, JUnit,
markdown.   recompute: the verdict once more from the answers.
keys, keyless: ed25519 keys, sigstore, and the one signed form (DSSE over an in-toto statement).
reviews: signed decisions, and whose are needed.   sealed: a plan, signed before its run.
pack, verify: the evidence pack.   serve: the reviewers' page.
The commands are `audit gate`, `audit review` and `audit evidence`.
"""
