"""Reanalyse the published tables of a paper.

`audit reanalyze [song2026|CSV] [OPTIONS]` reads the tables of song2026, or a table like its Table 2
(audit.papers.song2026). `audit reanalyze li2026 [OPTIONS]` reads those of li2026
(audit.papers.li2026)."""

from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the named paper."""
    if parser.get_default("typed")[:1] == ["li2026"]:
        from audit.papers import li2026

        parser = parser.add_subparsers().add_parser("li2026", description=li2026.DOES)
        li2026.add_arguments(parser)
        parser.set_defaults(reanalyze=li2026.run)
        return
    from audit.papers import song2026

    song2026.add_arguments(parser)
    parser.set_defaults(reanalyze=song2026.run)


def run(arguments: Namespace) -> int:
    """Reanalyse the tables of the named paper.

    Returns
    -------
    int
        The exit code of that reanalysis.
    """
    code: int = arguments.reanalyze(arguments)
    return code
