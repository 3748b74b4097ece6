"""An audit run from Python: options as the command takes them, and the run that comes of it."""

from collections.abc import Mapping
from typing import Any

from audit.audits import part_of
from audit.command_line import configured
from audit.errors import AuditError, ConfigError
from audit.loading import Run, load
from audit.plain_words import words


def run(audit: str, options: Mapping[str, Any]) -> Run:
    """As `audit.run`."""
    if options.get("plan"):
        raise ConfigError(f"plan=True gives no run. Expected the command: audit {audit} plan=true ...")
    config = configured(audit, list(words(options)))
    code = getattr(part_of(audit, "__main__"), audit)(config)
    if config.run_dir is None:
        raise AuditError(f"audit.run({audit!r}) ended with exit code {code} and no run; the reason is printed above.")
    return load(config.run_dir)
