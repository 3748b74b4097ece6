"""Decide on verdicts (governance), and pack the evidence so that other people can check it.

- ruling: derive a decision from a verdict, and sign people's decisions on it.
- formats: print a ruling as text, JSON, JUnit XML, GitHub annotations or markdown.
- recompute: compute the verdicts again from the answers, and compare them with the stored verdicts.
- keys, keyless: sign with ed25519 keys or sigstore (a DSSE envelope over an in-toto statement).
- reviews: store and check signed decisions, and count whether enough people signed.
- sealed: sign the plan of a run before the run starts (a seal), and compare the run with the plan.
- pack, packed_decisions, side_files, verify: write and check the evidence pack.
- serve: serve the web page for reviewers.

The commands `audit gate`, `audit review` and `audit evidence` use this package.
"""
