"""Store runs on disk: the shards (Arrow files), the manifest, and the state with which a run
resumes. The files of a run are:

RUN_DIR/manifest.json  attempt.json  questions.arrow  shards/*.arrow  quarantine/
"""
