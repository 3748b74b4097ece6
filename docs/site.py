"""The site's hooks: help texts and shipped tables fill pages, and files outside docs/ become pages
that links reach."""

import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from audit.core.package_data import shipped_table
from audit.memory import calibrate as memory
from audit.memory.analyse import JUDGE as MEMORY
from audit.perturb import calibrate as perturb
from audit.perturb.analyse import JUDGE as PERTURB
from audit.plant import words as plant
from audit.suite import calibrate as suite
from audit.sweep import calibrate as sweep
from audit.sweep.analyse import JUDGE as SWEEP
from audit.sweep.audit import SCHEMA
from audit.validity import calibrate as validity
from audit.validity.analyse import JUDGE as VALIDITY

ROOT = Path(__file__).resolve().parents[1]
# Where the site has a file that is kept beside what it describes.
OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "NOTICE": "notice.md",
    "jobs/README.md": "jobs.md",
    "cluster/README.md": "cluster.md",
}


def on_config(config: Any) -> Any:
    """Add every page of docs/findings that the nav does not name, so that a page that is generated
    is never missed."""
    (findings,) = (section["Findings"] for section in config.nav if "Findings" in section)
    pages = sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/findings").glob("*.md")
    )
    findings[:0] = [page for page in pages if page not in findings]
    return config


def on_files(files: Files, config: Any) -> Files:
    for source, page in OUTSIDE.items():
        files.append(
            File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8"))
        )
    return files


def _shipped() -> dict[str, str]:
    """Return the tables of the files in audit/data by name: simulated error rates, and what planted
    memory showed."""
    rates = memory.tables(shipped_table(MEMORY.shipped)["designs"])
    names = ("found", "unknown", "with_memory", "cleared", "cleared_10")
    of_perturb = shipped_table(PERTURB.shipped)["designs"]
    of_sweep = shipped_table(SWEEP.shipped)
    return {
        **{f"memory_{name}": table for name, table in zip(names, rates, strict=True)},
        "perturb_designs": perturb.markdown(of_perturb),
        "perturb_worlds": perturb.worlds_markdown(of_perturb),
        "perturb_cleared": perturb.cleared_markdown(of_perturb),
        "sweep_designs": sweep.markdown(of_sweep["designs"]),
        "sweep_worlds": sweep.worlds_markdown(of_sweep["worlds"]),
        "validity": validity.markdown(shipped_table(VALIDITY.shipped)["designs"]),
        "suite": suite.markdown(shipped_table("calibration_suite.json")["designs"]),
        "sensitivity": plant.markdown(
            json.loads((ROOT / "audit/data/sensitivity.json").read_text(encoding="utf-8"))
        ),
    }


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if "<!-- table: " in markdown:
        tables = _shipped()
        markdown = re.sub(r"<!-- table: (\w+) -->", lambda found: tables[found[1]], markdown)
    here = page.file.src_uri
    source = next((name for name, uri in OUTSIDE.items() if uri == here), f"docs/{here}")
    markdown = re.sub(
        r"\]\((?!\w+:|#)([^)#]+)(#[^)]*)?\)", lambda m: _link(m, source, here), markdown
    )
    markdown = re.sub(
        r"^  (?=[-*] )", "    ", markdown, flags=re.MULTILINE
    )  # nested lists need four blanks
    made = {"reference/commands.md": ("help", _help), "reference/columns.md": ("columns", _columns)}
    if here in made:
        name, make = made[here]
        markdown = markdown.replace(f"<!-- {name} -->", make())
    return markdown


def _link(found: re.Match[str], source: str, here: str) -> str:
    """A link of a file in the repository, as a link between pages of the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
    target = target if not (ROOT / target).is_dir() else f"{target}/README.md"
    page = OUTSIDE.get(target, target.removeprefix("docs/"))
    return f"]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{found[2] or ''})"


def _help() -> str:
    """What every command prints for --help."""

    def said(*words: str) -> str:
        command = [sys.executable, "-m", "audit", *words, "--help"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    names = re.findall(r"^  (\w+) +\S", said(), re.MULTILINE)
    return "\n".join(f"## audit {name}\n\n```text\n{said(name)}\n```\n" for name in names)


def _columns() -> str:
    """Return the table of the columns of a sweep's rows."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for field in SCHEMA.columns:
        kind = str(field.type).replace("list<item: ", "list of ").rstrip(">")
        lines.append(f"| `{field.name}` | {kind} | {field.metadata[b'doc'].decode()} |")
    return "\n".join(lines)
