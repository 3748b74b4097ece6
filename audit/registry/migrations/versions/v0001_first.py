"""The first tables: those of `schema`. Who adds a second version spells them out here first, as they were: a test opens
a registry of this version and holds what becomes of it to `schema`."""

from alembic import op

from audit.registry.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
