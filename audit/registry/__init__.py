"""Keep every finished run in one database, the registry of audits, and use them together.

- schema, database, migrations: the tables (SQLAlchemy), in SQLite or PostgreSQL, versioned by
  alembic.
- entry: reads a run directory into what is registered of it.
- store: writes and reads rows.
- finish: registers a run when it ends.
- commands: `audit registry`.
- trends: indicators over versions.
- comparison: two runs, question by question.
- notify: mail and chat.
- tried: earlier runs of the same question.
- retention, rotation: results past their retention, and benchmarks due for a new sample.
- cards: the result as metadata of a model (Hugging Face, MLflow, W&B).

The files of a run remain the source: verdict, shards and signed decisions are read from its
directory, never from the registry.
"""
