"""What is installed is named by version and by the hash of its file; no address is written down."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted(
    path for path in (ROOT / "requirements").glob("*.txt") if "overrides" not in path.name
)


def pinned(path: Path) -> dict[str, tuple[str, int]]:
    """{package: (version, hashes)}"""
    text = path.read_text().replace("\\\n", " ")
    matches = [
        re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==(\S+)(.*)", line) for line in text.splitlines()
    ]
    assert all(matches), path
    return {match[1]: (match[2], match[3].count("--hash=sha256:")) for match in matches if match}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_every_package_has_a_version_and_the_hashes_of_its_files(path: Path) -> None:
    bare = {name: version for name, (version, hashes) in pinned(path).items() if not hashes}
    # A build of PyTorch's own index: only the files at hand are known, so a hash of theirs would
    # refuse the others.
    assert all("+" in version for version in bare.values()) and set(bare) <= {"torch"}
    assert "://" not in path.read_text() and "--find-links" not in path.read_text()


def test_the_installer_is_pinned_too() -> None:
    assert "uv" in pinned(ROOT / "requirements" / "uv.txt")
    for file in (
        "requirements/install.sh",
        "cluster/Dockerfile",
        "cluster/ray-cluster.yaml",
        "Makefile",
    ):
        text = (ROOT / file).read_text()
        assert "--require-hashes -r" in text and not re.search(
            r"pip install (--\S+ )*[\"']?uv\b", text
        ), file


def test_torchvision_is_where_the_engine_imports_it() -> None:
    """vLLM's build for GPUs does before it serves any model; beside a torch for CPUs it breaks
    transformers."""
    assert "torchvision" in pinned(ROOT / "requirements" / "gpu.txt")
    assert "torchvision" not in pinned(ROOT / "requirements" / "cpu.txt")


def test_ray_installs_the_list_with_what_is_left_out_of_it() -> None:
    """Without the overrides uv finds no solution: packages that nobody needs ask for others."""
    from ray._private.runtime_env.uv import _expand_env_vars
    from ray._private.runtime_env.validation import parse_and_validate_uv

    options = parse_and_validate_uv(
        yaml.safe_load((ROOT / "jobs" / "runtime_env_install.yaml").read_text())["uv"]
    )
    environment = {"RAY_RUNTIME_ENV_CREATE_WORKING_DIR": str(ROOT)}
    (packages,) = (_expand_env_vars(package, environment) for package in options["packages"])
    option, overrides = (
        _expand_env_vars(text, environment) for text in options["uv_pip_install_options"]
    )
    assert (
        packages == f"-r {ROOT / 'requirements' / 'gpu.txt'}"
        and Path(packages.removeprefix("-r ")).is_file()
    )
    assert option == "--override" and Path(overrides).is_file()
