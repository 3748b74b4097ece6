"""A paper's published tables again: `audit reanalyze [CSV] [OPTIONS]` song2026's, or a table like it
(audit.papers.song2026); `audit reanalyze li2026 [OPTIONS]` li2026's (audit.papers.li2026)."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to the paper's audit; `--help` lists its options."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["li2026"]:
        from audit.papers.li2026 import main as show

        return show(words[1:])
    from audit.papers.song2026 import main as reanalyze

    return reanalyze(words)
