"""Every key of the configuration has a comment in conf/, or stands in a page of docs/reference."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig

from audit.config.command_line import compose_command
from audit.memory.config import MemoryConfig
from audit.perturb.config import PerturbConfig
from audit.plant.config import PlantConfig
from audit.sweep.config import SweepConfig
from audit.validity.config import ValidityConfig

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("scripted", "openai_compatible", "smollm2_135m")
COMMANDS = {
    "sweep": SweepConfig,
    "perturb": PerturbConfig,
    "memory": MemoryConfig,
    "validity": ValidityConfig,
    "plant": PlantConfig,
}
KEY = re.compile(r"^\s*(?:- |# )?([\w/]+):(?:\s|$)")


def leaves(config: DictConfig, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key that holds no keys itself, without the names of models."""
    for key in config:
        node = config._get_node(key)
        path = above if above == ("model",) and key in MODELS else (*above, str(key))
        if (
            isinstance(node, DictConfig)
            and not node._is_none()
            and not node._is_missing()
            and len(node)
        ):
            yield from leaves(node, path)
        else:
            yield path


def commented(text: str) -> set[str]:
    """Return the keys of a configuration file that have a comment beside them, or above them
    without a blank line."""
    keys = set()
    below_comment = False
    for line in text.splitlines():
        match = KEY.match(line)
        if line.lstrip().startswith("#"):
            below_comment = True
        if match and (below_comment or " #" in line):
            keys.add(match[1])
            keys.update(re.findall(r"(\w+):", line))  # the keys of a mapping in one line
        if not line.strip():
            below_comment = False
    return keys


def test_a_comment_documents_the_keys_beside_and_below_it() -> None:
    text = "a: 1  # one\nb: 2\n\n# of c and d\nc: {e: 1}\nd: 2\n\nf: 3\n# g: null  # a default\n"
    assert commented(text) == {"a", "c", "d", "e", "g"}


@pytest.fixture(scope="module")
def documented() -> set[str]:
    """Return the keys that a comment of conf/ or a page of the reference names."""
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "conf").rglob("*.yaml")]
    keys = {key for text in files for key in commented(text)}
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md")]
    return keys | {
        key for page in pages for key in re.findall(r"`(?:\w+\.)*(\w+)(?:=[^`]*)?`", page)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_is_documented(command: str, documented: set[str]) -> None:
    """A key is documented if it or a mapping that holds it is, groups such as `model` and `verdict`
    aside."""
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} | {
        "control_benchmark",
        "store",
    }
    words = [f"model=[{','.join(MODELS)}]"]
    paths = {
        path
        for path in leaves(compose_command(command, words, COMMANDS[command]))
        if path[0] != "hydra"
    }
    assert len(paths) > 40
    missing = [
        ".".join(path)
        for path in sorted(paths)
        if not documented.intersection(set(path) - groups or path)
    ]
    assert missing == []
