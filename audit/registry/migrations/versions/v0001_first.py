"""Create the first tables: those of `schema`.

A second version must first list them here as they were. A test opens a registry of this version and
compares the upgraded tables with `schema`.
"""

from alembic import op

from audit.registry.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
