"""The versions of the registry's tables, for alembic."""
