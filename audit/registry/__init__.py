"""Keep every finished run in one database, the registry of audits, and what follows from having
them together.

schema, database, migrations: the tables (SQLAlchemy), SQLite or PostgreSQL, versions by alembic.
entry: reads a run directory into what is registered of it. store: writes and reads rows. finish:
registers a run when it ends. commands: `audit registry`. trends: indicators over versions.
comparison: two runs, question by question. notify: mail and chat. tried: earlier runs of the same
question. retention, rotation: results past their retention, and benchmarks due for a new sample.
cards: the result as metadata of a model (Hugging Face, MLflow, W&B).

The files of a run stay the truth: verdict, shards and signed decisions are read from its directory,
never from here.
"""
