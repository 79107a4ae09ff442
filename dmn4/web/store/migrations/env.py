"""What Alembic runs: the migrations, in the transaction that was opened for them."""

from alembic import context

from dmn4.web.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
