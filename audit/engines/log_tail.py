"""Why an engine did not load: vLLM's own processes say it in a log, not in the exception that reaches us."""

import re
from collections.abc import Iterable
from pathlib import Path

from audit.shards.redact import redact

_TAIL_BYTES = 64 * 1024
_LINES_SHOWN = 4
_CAUSE = re.compile(r"\b\w*(?:Error|Exception): \S|out of memory", re.I)
_POINTER = re.compile(r"Engine core initialization failed|See root cause above|WorkerProc initialization failed", re.I)


def own_logs() -> list[Path]:
    """The files that this process's stdout and stderr go to (a Ray worker's logs); child processes inherit them."""
    logs = {Path(f"/proc/self/fd/{fd}").resolve() for fd in (1, 2)}
    return sorted(path for path in logs if path.is_file())


def causes(logs: Iterable[Path]) -> list[str]:
    """The last few lines of the logs that name an error, each once and without secrets; mere pointers are left out."""
    found: dict[str, None] = {}
    for path in logs:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        for line in lines:
            text = line.rpartition("] ")[2].strip()  # without vLLM's time and place
            if _CAUSE.search(text) and not _POINTER.search(text):
                found[text] = None
    return [str(redact(text))[:500] for text in list(found)[-_LINES_SHOWN:]]


def explain() -> str:
    """What to add to the message of an engine that did not load; empty where there is no log."""
    logs = own_logs()
    if not logs:
        return ""
    said = "".join(f"\n  {line}" for line in causes(logs))
    return f"{said}\nIts whole log, on the engine's node: {', '.join(map(str, logs))}"
