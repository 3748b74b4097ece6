"""Find the audits, readers of benchmarks and reference scorers of other packages by entry point.

    [project.entry-points."benchmark_audit.audits"]
    shouting = "shouting"  # a package with the files of an audit, and its conf/shouting.yaml
    [project.entry-points."benchmark_audit.readers"]
    riddles = "shouting.riddles:FORMAT"  # a `benchmarks.registry.Format`
    [project.entry-points."benchmark_audit.scorers"]
    exact = "shouting.riddles:SCORER"  # a `scoring.reference.ReferenceScorer`

A package cannot replace a name that this program uses. CONTRIBUTING.md lists the files of an
audit's package.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache
def added(kind: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of other packages.

    Parameters
    ----------
    kind : str
        "audits", "readers" or "scorers".

    Returns
    -------
    mapping
        The entry points by name.
    """
    return {point.name: point for point in entry_points(group=f"benchmark_audit.{kind}")}
