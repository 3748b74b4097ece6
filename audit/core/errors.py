"""Define the exceptions of the program. A message states the value, what was expected, and an
example.
"""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class AuditError(Exception):
    """Base of every error that the program raises on purpose.

    stopped: why the program stopped a model, as the manifest keeps it.
    """

    stopped: Mapping[str, Any] | None = None


class ConfigError(AuditError):
    """The configuration cannot be run; raised before an engine is loaded."""


class UsageError(ConfigError):
    """The arguments of a command do not have the right form (exit code 2)."""


class BenchmarkError(AuditError):
    """A benchmark file or row is unusable; names the file and the line."""


class EngineError(AuditError):
    """An engine cannot serve."""


class EngineLoadError(EngineError):
    """An engine did not start: missing weights, a gated model, no memory."""


class EngineDiedError(EngineError):
    """An engine died while serving; a new one could serve."""


class EngineLoadingError(EngineError):
    """A restarted engine is not loaded yet; others can serve meanwhile."""


class EndpointAuthError(EngineError):
    """An endpoint refused the key (401, 403)."""


class SpentError(AuditError):
    """The remaining budget of a run does not cover another question."""


class LibraryError(AuditError):
    """A variant library is absent, damaged, or made for another benchmark."""


class TrainError(AuditError):
    """A model could not be trained on the planted items (no memory, no weights)."""


class SandboxError(AuditError):
    """A sandbox did not start or was killed, so the result of its code is unknown."""


class ShardError(AuditError):
    """The stored rows contradict the run: a key twice, a foreign run, a full disk."""


class SupersededError(ShardError):
    """A later driver has taken over the run; only that driver may change its files."""


class DataError(AuditError):
    """The outcomes cannot carry the requested statistic."""


class SignatureError(AuditError):
    """A signed document or an evidence pack differs from what was signed, or its signer is not
    trusted.
    """


class RegistryError(AuditError):
    """The registry of audits does not answer, or its records contradict the clock."""


def check_seed(seed: int) -> None:
    """Raise ConfigError if a seed is negative."""
    if seed < 0:
        raise ConfigError(f"seed is {seed}. Expected 0 or more. Example: seed=42.")


def check_counts(least: int = 1, **counts: int) -> None:
    """Raise ConfigError for the first count below the least.

    Parameters
    ----------
    least : int
        The smallest valid count.
    **counts
        Counts by name.

    Raises
    ------
    ConfigError
        Names the count.
    """
    for name, count in counts.items():
        if count < least:
            raise ConfigError(
                f"Invalid {name}: {count}. Expected a whole number of at least {least}."
            )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name, with all known names and the nearest one.

    Parameters
    ----------
    kind : str
        What is named, such as "arm".
    name : str
        The unknown name.
    known : iterable of str
        The valid names.

    Returns
    -------
    ConfigError
        To be raised by the caller.
    """
    names = sorted(map(str, known))  # str() shows an enum member as its value.
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"Unknown {kind}: {name!r}.{hint} Known: {', '.join(names)}.")


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigError if a name is not among the known ones (`unknown_name`)."""
    if name not in known:
        raise unknown_name(kind, name, known)
