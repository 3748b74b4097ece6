"""Run alembic on the connection that `database` opened, inside its transaction, and nowhere
else."""

from alembic import context

from audit.registry.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
