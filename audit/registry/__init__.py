"""Keep all finished runs in one database, the registry of audits.

- schema, database, migrations: the tables (SQLAlchemy), in SQLite or PostgreSQL, versioned by
  alembic.
- entry: reads the registered facts of a run from its directory. - store: writes and reads rows. -
finish: checks the registry when a run starts, and registers the run when it ends. - commands:
`audit registry`. - trends: indicators over versions. - comparison: two runs, question by question.
- notify: mail and chat. - tried: earlier runs of the same question. - retention, rotation: results
past their retention, and benchmarks due for a new sample. - cards: the result as metadata of a
model (Hugging Face, MLflow, W&B).

The files of a run remain the source. Verdict, shards and signed decisions are read from the run's
directory, never from the registry.
"""
