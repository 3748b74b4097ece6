"""Store runs on disk: Arrow shards, the manifest beside them, and the state that a resumed run
needs.

RUN_DIR/manifest.json  attempt.json  questions.arrow  shards/*.arrow  quarantine/
"""
