"""Open and upgrade the registry's database, and try again if the database does not answer.

The database is SQLite in a file (WAL, a busy timeout, one writer at a time) or PostgreSQL. Every
write is one transaction that can be repeated. After a kill, the transaction is stored completely or
not at all.
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
# Number of the advisory lock in PostgreSQL, which lets only one process migrate.
_MIGRATION_LOCK = 0x617564697400
_EXAMPLE = "Expected a file, such as outputs/registry.db, or an address, such as postgresql://user@host/audits."

T = TypeVar("T")


def place_of(given: str | None) -> str | None:
    """Return the place of the registry, from `registry=` or AUDIT_REGISTRY; None if both are unset.

    Parameters
    ----------
    given : str or None
        File or address.

    Returns
    -------
    str or None
        The place.

    Raises
    ------
    ConfigError
        If the given address contains a password, since the run's configuration would store it.
    """
    if given and "://" in given and _url(given).password is not None:
        raise ConfigError(
            f"registry={_shown(given)} would store its password with the run. Put it into PGPASSWORD."
        )
    return given or os.environ.get(VARIABLE) or None


class Registry:
    """Read and write an open registry with current tables, which `open_registry` returns.

    Attributes
    ----------
    shown : str
        The place, without a password.
    """

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self.shown = shown

    def read(self, ask: Callable[[Connection], T]) -> T:
        """Run a query in one transaction, and return its result.

        Parameters
        ----------
        ask : callable
            The query, a function of a connection.

        Returns
        -------
        object
            Result of `ask`.

        Raises
        ------
        RegistryError
            If the database does not answer.
        """
        return self._retried(self._engine, ask)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make a change in one transaction, and return its result.

        Parameters
        ----------
        change : callable
            The change, a function of a connection. It may be called again after a failure of the
            database.

        Returns
        -------
        object
            Result of `change`.

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
                        f"The registry {self.shown} could not be used, {tries}"
                    ) from None
                time.sleep(wait)
            # The file is not a database, or a value is refused, so another try is useless.
            except DBAPIError as error:
                raise RegistryError(
                    f"The registry {self.shown} could not be used: {_reason(error)}"
                ) from error
        raise AssertionError("unreachable")


def open_registry(place: str, *, make: bool = True) -> Registry:
    """Open the registry at a file or address, and upgrade older tables.

    Parameters
    ----------
    place : str
        File or address.
    make : bool
        Whether a missing registry is created. If not, an error is raised, so that a misspelt name
        is not an empty registry.

    Returns
    -------
    Registry
        The registry.

    Raises
    ------
    ConfigError
        If the address is invalid, the registry is missing, or a newer program made its tables.
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
    """Raise RegistryError if the time is before the registry's last entry, since ages and periods
    would be wrong.

    Parameters
    ----------
    db : Connection
        Open connection.
    now : datetime
        Present time.

    Raises
    ------
    RegistryError
        If the clock went backwards.
    """
    last = ""
    for column in (runs.c.registered, runs.c.removed, draws.c.drawn):
        last = max(last, db.scalar(select(func.max(column))) or "")
    if last and at(now + _CLOCKS_DIFFER) < last:
        raise RegistryError(
            f"The registry was written at {last}, and the clock says {at(now)}, which is earlier. Correct the clock."
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
        raise ConfigError(f"The registry cannot be in {url.get_backend_name()}. {_EXAMPLE}")
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
        raise ConfigError(f"A registry in memory would be lost at once. {_EXAMPLE}")
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
            # This program sends BEGIN, because sqlite3 would leave DDL out of the
            # transaction.
            None
        )
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            db.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(db: Connection) -> None:
        # A writer waits for other writers at the beginning. Within a transaction, SQLite could only
        # fail.
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
    if "password" in url.query:  # The address is shown to people, and the password with it.
        raise ConfigError(
            "The registry's address has a password among its options. Put it into PGPASSWORD."
        )
    return url


def _shown(place: str) -> str:
    return _url(place).render_as_string(hide_password=True) if "://" in place else place


def _reason(error: DBAPIError) -> str:
    lines = str(error.orig or error).strip().splitlines()
    return lines[0] if lines else "no reason given"
