"""Store runs on disk: Arrow shards, the manifest beside them, and how a killed run resumes.

RUN_DIR/manifest.json  attempt.json  questions.arrow  shards/*.arrow  quarantine/
"""
