"""An audit run from Python: options as the command takes them, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from audit.audits import part_of
from audit.command_line import compose_command
from audit.errors import AuditError, ConfigError
from audit.loading import Run, load


def run(audit: str, options: Mapping[str, Any]) -> Run:
    """As `audit.run`."""
    if options.get("plan"):
        raise ConfigError(f"plan=True gives no run. Expected the command: audit {audit} plan=true ...")
    part = part_of(audit, "config")
    part.register()
    schema = getattr(part, f"{audit.capitalize()}Config")
    try:
        config = part.from_hydra(compose_command(audit, list(words(options)), schema))
    except OmegaConfBaseException as error:
        raise ConfigError(f"audit.run({audit!r}): {error}") from error
    code = getattr(part_of(audit, "__main__"), audit)(config)
    if config.run_dir is None:
        raise AuditError(f"audit.run({audit!r}) ended with exit code {code} and no run; the reason is printed above.")
    return load(config.run_dir)


def words(options: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Options as the command line has them.

    >>> list(words({"n": 20, "gate": True, "references": ["a", "b"], "benchmark": {"path": "x.csv"}, "seed": None}))
    ['n=20', 'gate=true', 'references=[a,b]', 'benchmark.path=x.csv', 'seed=null']
    """
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from words(value, f"{above}{key}.")
        else:
            yield f"{above}{key}={_text(value)}"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
