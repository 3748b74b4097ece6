"""Governance: decide on verdicts, and pack the evidence so that others can check it.

ruling: grade the folder of a run, panel or suite, and sign decisions on it.
formats: print a ruling as text, JSON, JUnit XML, GitHub annotations or markdown.
recompute: compute stored verdicts from the answers and compare.
keys, keyless: ed25519 keys, sigstore, and the signed form (DSSE over an in-toto statement).
reviews: signed decisions, and how many signers are needed.
sealed: a plan that was signed before its run.
pack, packed_decisions, side_files, verify: the evidence pack.
serve: the page for reviewers.

The commands `audit gate`, `audit review` and `audit evidence` use this package.
"""
