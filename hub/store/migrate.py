"""Brings a database to this version's schema, by Alembic's migrations, all in one transaction.

Migrations are package data beside this module: ``migrations/versions/NNNN_*.py``. A test makes the newest schema by
them and compares it with `hub.store.schema`; another opens a file an older version left.
"""

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from sqlalchemy import Connection

from hub.store.base import StoreVersionError

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection) -> list[str]:
    """Apply what is missing, within the caller's transaction; the revisions applied.

    Raises:
        StoreVersionError: the database was made by a newer version.
    """
    scripts = ScriptDirectory(str(MIGRATIONS))
    context = MigrationContext.configure(connection)
    current = context.get_current_revision()
    try:
        missing = list(scripts.iterate_revisions("head", current or "base"))
    except (CommandError, RevisionError) as error:
        raise StoreVersionError(
            f"the store has schema {current}, which this version does not know; start the newer version again"
        ) from error
    missing.reverse()
    for script in missing:
        with Operations.context(context):
            script.module.upgrade()
        context.stamp(scripts, script.revision)
    return [script.revision for script in missing]
