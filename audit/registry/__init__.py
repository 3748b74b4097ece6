"""Keep all finished runs in one database, the registry of audits.

- schema, database and migrations define the tables (SQLAlchemy), in SQLite or PostgreSQL. Their
  versions are managed by alembic.
- entry reads the facts to register from the directory of a run.
- store writes and reads rows.
- finish checks the registry when a run starts, and registers the run when it ends.
- commands runs `audit registry`.
- trends computes how indicators change over the versions of a model.
- comparison compares two runs, question by question.
- notify sends mail and chat messages.
- tried finds earlier runs of the same audit on the same model and benchmark.
- retention removes results that are older than their retention time.
- rotation finds benchmarks that are due for a new sample.
- cards publishes a result as metadata of a model (Hugging Face, MLflow, W&B).

Verdicts, shards and signed decisions are always read from the run's directory, never from the
registry.
"""
