"""Create the tables of version 1, which are the tables of `schema`.

Before a second version changes `schema`, the tables of version 1 must be written out here. A test
opens a registry of version 1 and compares the upgraded tables with `schema`.
"""

from alembic import op

from audit.registry.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
