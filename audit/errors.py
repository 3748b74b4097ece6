"""The exceptions of the program. A message says what was found, what was expected, and an example that works."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class AuditError(Exception):
    """Base of every error that the program raises on purpose. stopped: of a model that the program stopped, why, as the
    manifest keeps it."""

    stopped: Mapping[str, Any] | None = None


class ConfigError(AuditError):
    """What was asked for cannot be run; raised before an engine is loaded."""


class UsageError(ConfigError):
    """Words that are not of the form that a command takes (exit code 2)."""


class BenchmarkError(AuditError):
    """A benchmark file or row is unusable; names the file and the line."""


class EngineError(AuditError):
    """An engine cannot serve."""


class EngineLoadError(EngineError):
    """An engine did not start: missing weights, a gated model, no memory."""


class EngineDiedError(EngineError):
    """An engine that served is dead; a new one could serve."""


class EngineLoadingError(EngineError):
    """An engine that was started again is not loaded yet; others can serve meanwhile."""


class EndpointAuthError(EngineError):
    """An endpoint refused the key (401, 403)."""


class SpentError(AuditError):
    """What is left of the money that a run may spend does not pay for another question."""


class LibraryError(AuditError):
    """A variant library is absent, damaged, or of another benchmark."""


class TrainError(AuditError):
    """A model could not be taught what was to be planted (no memory, no weights)."""


class SandboxError(AuditError):
    """A sandbox did not start or was killed: nothing is known of the code in it."""


class ShardError(AuditError):
    """What is on disk is not what the run says: a key twice, a foreign run, a full disk."""


class SupersededError(ShardError):
    """A later driver has taken the run over: what is there is its own to change."""


class DataError(AuditError):
    """The outcomes cannot carry the statistic asked for."""


class SignatureError(AuditError):
    """A signed document or an evidence pack is not what was signed, or its signer is not trusted."""


class RegistryError(AuditError):
    """The registry of audits does not answer, or what it holds and the clock contradict each other."""


def check_seed(seed: int) -> None:
    """ConfigError for a seed that no generator takes."""
    if seed < 0:
        raise ConfigError(f"seed={seed}; expected 0 or more, such as seed=42.")


def check_counts(least: int = 1, **counts: int) -> None:
    """ConfigError for the first of these, by name, that is below the least."""
    for name, count in counts.items():
        if count < least:
            raise ConfigError(f"Invalid {name}: {count}. Expected a whole number of at least {least}.")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not in a list: it shows the list and the nearest name."""
    names = sorted(map(str, known))  # str: an enum member is shown by its value
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"Unknown {kind}: {name!r}.{hint} Known: {', '.join(names)}.")


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """ConfigError for a name that is not in a list (`unknown_name`)."""
    if name not in known:
        raise unknown_name(kind, name, known)
