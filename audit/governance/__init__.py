"""Governance: what follows from a verdict, what people decide about it, and the pack that somebody else can check.

decision: verdict.json -> pass, review, block or no decision (pure).   formats: a ruling as text, JSON, JUnit, markdown.
ruling: what the folder of a run, panel or suite comes to.   queue: what waits for a decision, and deciding on it.
keys, keyless, envelope: ed25519 keys, sigstore, and the one signed form (DSSE over an in-toto statement).
reviews, people: signed decisions, and whose are needed.
pack, verify: the evidence pack.   serve: the reviewers' page.
The commands are `audit gate`, `audit review` and `audit evidence`.
"""
