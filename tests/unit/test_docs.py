"""What a person reads: short sentences, links that lead somewhere, a site that builds."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "AGENTS.md",
    "jobs/README.md",
    "cluster/README.md",
]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))


def sentences(text: str) -> list[int]:
    """Words of each sentence of the prose: no code, tables, headings, comments; a list item begins
    a paragraph."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    prose = [line if not re.match(r"#|\||    |!|:::", line) else "" for line in text.splitlines()]
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", "\n".join(prose))
    counts = []
    for paragraph in paragraphs:
        plain = re.sub(
            r"`[^`]*`", "X", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        )
        counts += [
            len(sentence.split())
            for sentence in re.split(r'(?<=[.!?])\s+(?=[A-Z("*0-9])', plain)
            if re.search("[a-z]", sentence)
        ]
    return counts


def test_a_sentence_has_twenty_words() -> None:
    counts = [n for page in PAGES for n in sentences((ROOT / page).read_text())]
    assert len(counts) > 1000
    assert sum(counts) / len(counts) <= 20
    assert sum(n > 35 for n in counts) / len(counts) <= 0.03


@pytest.mark.parametrize("name", [*PAGES, "CHANGELOG.md", "tests/schemas/README.md"])
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", path.read_text()) if "://" not in t]
    assert not [target for target in targets if not (path.parent / target).exists()]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 60


@pytest.mark.skipif(
    not importlib.util.find_spec("mkdocs"), reason="`make docs` installs what builds the site"
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/reference/commands.html").read_text()
    assert "audit perturb" in page and "https://fonts" not in page
    columns = (tmp_path / "site/reference/columns.html").read_text()
    assert "<code>router_calls</code>" in columns
    rates = (tmp_path / "site/findings/memory_calibration.html").read_text()
    assert (
        rates.count("1000 / 500, R=8") >= 5
    )  # once in the head of each of the five shipped tables


def test_the_glossary_names_what_the_program_has() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text()
    names = re.findall(r"^- \*\*[^*]+\*\* \(`(\w+)`\): ", text, re.MULTILINE)
    assert len(names) == text.count("\n- ")
    files = [*(ROOT / "audit").rglob("*.py"), *(ROOT / "conf").rglob("*.yaml")]
    words = {
        word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    assert len(names) > 60
    assert [name for name in names if name not in words] == []


def test_the_messages_of_the_troubleshooting_page_are_the_programs() -> None:
    text = (ROOT / "docs/do/troubleshoot.md").read_text()
    messages = [m for m in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE) if " " in m]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "audit").rglob("*.py"))
    assert len(messages) >= 10
    assert [message for message in messages if message not in sources] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_one_title(name: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


def test_the_readme_has_at_most_a_thousand_words() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1000


def test_the_documentation_has_at_most_forty_thousand_words() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 40_000
