"""A paper's published tables again: `python -m audit.reanalyze [CSV] [OPTIONS]` song2026's, or a table like it
(audit.sweep.reanalyze); `python -m audit.reanalyze li2026 [OPTIONS]` li2026's (audit.validity.show_li2026)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from audit.exits import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to the paper's audit; `--help` lists its options."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["li2026"]:
        from audit.validity.show_li2026 import main as show

        return show(words[1:])
    from audit.sweep.reanalyze import main as reanalyze

    return reanalyze(words)


if __name__ == "__main__":
    run_command(main)
