"""Reanalyse a paper's published tables: `audit reanalyze [song2026|CSV] [OPTIONS]` those of
song2026, or a table like its Table 2 (audit.papers.song2026); `audit reanalyze li2026 [OPTIONS]`
those of li2026 (audit.papers.li2026)."""

from argparse import ArgumentParser, Namespace


def add_words(parser: ArgumentParser) -> None:
    if parser.get_default("typed")[:1] == ["li2026"]:
        from audit.papers import li2026

        parser = parser.add_subparsers().add_parser("li2026", description=li2026.DOES)
        li2026.add_words(parser)
        parser.set_defaults(act=li2026.run)
        return
    from audit.papers import song2026

    song2026.add_words(parser)
    parser.set_defaults(act=song2026.run)


def run(asked: Namespace) -> int:
    """Hand over to the paper's audit."""
    done: int = asked.act(asked)
    return done
