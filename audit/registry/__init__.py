"""The registry of audits: every finished run in one database, and what follows from having them together.

schema, database, migrations: the tables (SQLAlchemy), SQLite or PostgreSQL, versions by alembic.   entry: a run
directory -> what is registered of it.   store: written and read.   finish: what a run does when it ends.
commands: `audit registry`.   trends: indicators over versions.   comparison: two runs, question by question.
notify: mail and chat.   tried: earlier runs of the same question.
retention, rotation: what may go, what is due.
cards: the result as metadata of a model (Hugging Face, MLflow, W&B).

The files of a run stay the truth: verdict, shards and signed decisions are read from its directory, never from here.
"""
