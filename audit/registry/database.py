"""Open and upgrade the registry's database. Failed accesses are repeated.

The database is SQLite in a file (WAL, a busy timeout, one writer at a time) or PostgreSQL. Every
write is one transaction that can be repeated. A transaction of a killed process is stored
completely or not at all.
"""

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from audit.core.errors import ConfigError, RegistryError
from audit.governance.reviews import at
from audit.registry.schema import draws, runs

VARIABLE = "AUDIT_REGISTRY"
_WAITS_S = (0.2, 0.5, 1.0, 2.0)  # seconds to wait before each further try
_LOCK_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 5
_CLOCKS_DIFFER = timedelta(minutes=5)  # tolerated difference between the clocks of a cluster
# Number of the advisory lock in PostgreSQL. The lock lets only one process at a time migrate the
# tables.
_MIGRATION_LOCK = 0x617564697400
_EXAMPLE = "Expected a file, such as outputs/registry.db, or an address, such as postgresql://user@host/audits."

T = TypeVar("T")


def place_of(given: str | None) -> str | None:
    """Return the file or address of the registry; None if no registry is configured.

    It is taken from the option `registry=`, or else from the environment variable AUDIT_REGISTRY.

    Parameters
    ----------
    given : str or None
        The value of the option `registry=`.

    Returns
    -------
    str or None
        The file or address.

    Raises
    ------
    ConfigError
        If the given address contains a password, since the password would be stored with the run's
        configuration.
    """
    if given and "://" in given and _url(given).password is not None:
        raise ConfigError(
            f"registry={_shown(given)} has a password, which would be stored with the run. Put "
            "the password into PGPASSWORD."
        )
    return given or os.environ.get(VARIABLE) or None


class Registry:
    """Give read and write access to an open registry. Instances are made by `open_registry`.

    Attributes
    ----------
    shown : str
        File or address of the registry, without a password.
    """

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown

    def read(self, ask: Callable[[Connection], T]) -> T:
        """Run a query in one transaction, and return the query's result.

        Parameters
        ----------
        ask : callable
            The query, a function of a connection.

        Returns
        -------
        object
            The value that `ask` returned.

        Raises
        ------
        RegistryError
            If the database does not answer.
        """
        return self._retried(self._engine, ask)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Change the database in one transaction, and return the result of the change.

        Parameters
        ----------
        change : callable
            The change, a function of a connection. It may be called again after a failure of the
            database.

        Returns
        -------
        object
            The value that `change` returned.

        Raises
        ------
        RegistryError
            If the database does not answer.
        """
        return self._retried(self._engine.execution_options(writes=True), change)

    def _retried(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        for wait in (*_WAITS_S, None):
            try:
                with engine.begin() as db:
                    return work(db)
            except (OperationalError, InterfaceError) as error:
                if wait is None:
                    tries = f"after {len(_WAITS_S) + 1} tries: {_reason(error)}"
                    raise RegistryError(
                        f"The registry {self.shown} could not be used {tries}"
                    ) from None
                time.sleep(wait)
            # The file is not a database, or the database refuses a value. Another try would fail
            # too.
            except DBAPIError as error:
                raise RegistryError(
                    f"The registry {self.shown} could not be used: {_reason(error)}"
                ) from error
        raise AssertionError("unreachable")


def open_registry(place: str, *, make: bool = True) -> Registry:
    """Open the registry at a file or address. Tables of an older version are upgraded.

    Parameters
    ----------
    place : str
        File or address.
    make : bool
        Whether a missing registry is created. If false, an error is raised instead, so that a
        misspelt name does not create an empty registry.

    Returns
    -------
    Registry
        The open registry database.

    Raises
    ------
    ConfigError
        If the address is invalid, if the registry is missing, or if a newer version of this program
        made its tables.
    RegistryError
        If the database does not answer.
    """
    url = _url(place)
    missing = ConfigError(
        f"{_shown(place)} is not a registry. Expected the registry in which the runs were "
        "registered."
    )
    file = url.database if url.get_backend_name() == "sqlite" else None
    if not make and file and not Path(file).is_file():
        raise missing
    registry = Registry(_engine(url), _shown(place))
    if (
        not make
        and registry.read(lambda c: MigrationContext.configure(c).get_current_revision()) is None
    ):
        raise missing
    registry.write(_up_to_date)
    return registry


def check_clock(db: Connection, now: datetime) -> None:
    """Raise RegistryError if the computer's clock is behind the last entry of the registry.

    With a wrong clock, the ages of runs and the periods of samples would be wrong.

    Parameters
    ----------
    db : Connection
        Open connection to the database.
    now : datetime
        Current time.

    Raises
    ------
    RegistryError
        If the current time is before the time of the last entry.
    """
    last = ""
    for column in (runs.c.registered, runs.c.removed, draws.c.drawn):
        last = max(last, db.scalar(select(func.max(column))) or "")
    if last and at(now + _CLOCKS_DIFFER) < last:
        raise RegistryError(
            f"The last entry of the registry is of {last}, but the clock shows {at(now)}. "
            "Correct the clock."
        )


def _up_to_date(db: Connection) -> None:
    if db.dialect.name == "postgresql":
        db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
    config = Config()
    config.set_main_option(
        "script_location", str(files("audit.registry").joinpath("migrations")).replace("%", "%%")
    )
    config.attributes["connection"] = db
    scripts = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(db).get_current_revision()
    if current == scripts.get_current_head():
        return
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise ConfigError(
            f"The registry's version is {current[:32]}, made by a newer program. Update this "
            "program."
        )
    command.upgrade(config, "head")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    if url.get_backend_name() != "postgresql":
        raise ConfigError(
            f"The registry's database is {url.get_backend_name()}, which is not supported. "
            f"{_EXAMPLE}"
        )
    limits = f"-c lock_timeout={_LOCK_TIMEOUT_S}s -c statement_timeout={2 * _LOCK_TIMEOUT_S}s"
    arguments = {"connect_timeout": _CONNECT_TIMEOUT_S, "options": limits}
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"), poolclass=NullPool, connect_args=arguments
        )
    except ImportError as error:
        raise ConfigError(
            "A registry in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
        ) from error


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError(f"The registry is in memory, where it would be lost at once. {_EXAMPLE}")
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The registry's folder {Path(url.database).parent} cannot be created ({error})."
        ) from error
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _LOCK_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _connected(db: Any, _record: Any) -> None:
        db.isolation_level = (
            # This program sends BEGIN itself, because the module sqlite3 would not include changes
            # of tables in the transaction.
            None
        )
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            db.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(db: Connection) -> None:
        # With BEGIN IMMEDIATE, a writer waits here for other writers. Later in the transaction,
        # SQLite would fail instead of waiting.
        writes = db.get_execution_options().get("writes")
        db.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _url(place: str) -> URL:
    if "://" not in place:
        return URL.create("sqlite", database=place)
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):  # The error's message may show the password.
        raise ConfigError(f"The registry's address cannot be read. {_EXAMPLE}") from None
    # The address is shown to people, so it must not contain the password.
    if "password" in url.query:
        raise ConfigError(
            "The registry's address has a password among its options. Put the password into "
            "PGPASSWORD."
        )
    return url


def _shown(place: str) -> str:
    return _url(place).render_as_string(hide_password=True) if "://" in place else place


def _reason(error: DBAPIError) -> str:
    lines = str(error.orig or error).strip().splitlines()
    return lines[0] if lines else "no reason given"
