"""The first tables: `database` makes those of today where there are none, and later versions change what it finds."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing: a registry of this version has its tables."""
