"""Create the tables of version 1, which are the tables of `schema`.

Before a second version changes `schema`, copy the definitions of the tables of version 1 to this
file. A test opens a registry of version 1 and compares the upgraded tables with `schema`.
"""

from alembic import op

from audit.registry.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
