"""Define the exceptions of the program.

A message states the refused value, the expected values, and an example.
"""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class AuditError(Exception):
    """Be the base of every error that the program raises on purpose.

    Attributes
    ----------
    stopped : str
        The reason why the program stopped a model, which the manifest stores.
    """

    stopped: Mapping[str, Any] | None = None


class ConfigError(AuditError):
    """Report a configuration that cannot be run. The error comes before an engine is loaded."""


class UsageError(ConfigError):
    """Report arguments of a command in the wrong form (exit code 2)."""


class BenchmarkError(AuditError):
    """Report an unusable file or row of a benchmark. The message names file and line."""


class EngineError(AuditError):
    """Report that an engine cannot serve."""


class EngineLoadError(EngineError):
    """Report that an engine did not start, for example without weights, access or memory."""


class EngineDiedError(EngineError):
    """Report that an engine died while serving. A new engine could serve."""


class EngineLoadingError(EngineError):
    """Report that a restarted engine is still loading. Other engines can serve meanwhile."""


class EndpointAuthError(EngineError):
    """Report that an endpoint refused the key (401, 403)."""


class SpentError(AuditError):
    """Report that the remaining budget of a run does not cover another question."""


class LibraryError(AuditError):
    """Report that a variant library is absent, damaged, or made for another benchmark."""


class TrainError(AuditError):
    """Report that a model could not be trained on the planted items, for example without memory."""


class SandboxError(AuditError):
    """Report that a sandbox did not start or was killed, so the result of its code is unknown."""


class ShardError(AuditError):
    """Report that rows cannot be stored (a full disk) or contradict the run (a repeated key)."""


class SupersededError(ShardError):
    """Report that a later driver has taken over the run. Only that driver may change its files."""


class DataError(AuditError):
    """Report that the outcomes are not enough for the requested statistic."""


class SignatureError(AuditError):
    """Report that a signed document or evidence pack was changed, or its signer is not trusted."""


class RegistryError(AuditError):
    """Report that the registry of audits does not answer, or has entries later than the clock."""


def check_seed(seed: int) -> None:
    """Raise ConfigError if a seed is negative."""
    if seed < 0:
        raise ConfigError(f"seed is {seed}. Expected 0 or more. Example: seed=42.")


def check_counts(least: int = 1, **counts: int) -> None:
    """Raise ConfigError for the first count that is less than `least`.

    Parameters
    ----------
    least : int
        The smallest valid count.
    **counts
        Counts by name.

    Raises
    ------
    ConfigError
        If a count is too small. The message names it.
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
        The kind of name, such as "arm".
    name : str
        The unknown name.
    known : iterable of str
        All valid names, which the message lists.

    Returns
    -------
    ConfigError
        The error, which the caller raises.
    """
    names = sorted(map(str, known))  # str() shows an enum member as its value.
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"Unknown {kind}: {name!r}.{hint} Known: {', '.join(names)}.")


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigError if a name is not among the known names.

    Parameters
    ----------
    kind, name, known
        The kind of name, the name, and all valid names.

    Raises
    ------
    ConfigError
        If the name is not among the known ones.
    """
    if name not in known:
        raise unknown_name(kind, name, known)
