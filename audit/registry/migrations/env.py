"""Run alembic on the connection that `database` has opened, within the same transaction."""

from alembic import context

from audit.registry.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
