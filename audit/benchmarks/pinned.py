"""Fetches the authors' own files of a benchmark from one commit of their repository, each held to its sha256."""

import hashlib
import logging
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from audit.benchmarks.config import BenchmarkConfig
from audit.errors import BenchmarkError, ConfigError

TIMEOUT_S = 30.0  # without a byte
RETRIES = 2


def fetch(config: BenchmarkConfig, wanted: list[str]) -> list[Path]:
    """The files of these names, from the cache where they are there unchanged, else from `config.url`.

    Raises ConfigError for an address with credentials, BenchmarkError where a file cannot be had or is another file.
    """
    # Imported here: local benchmarks do not need it.
    import pooch
    import requests

    if "@" in urlsplit(str(config.url)).netloc:
        raise ConfigError("benchmark.url holds a user name or key, which would be written into the run. Leave it out.")
    pooch.get_logger().setLevel(logging.WARNING)
    source = pooch.create(
        path=_folder(config),
        base_url=f"{str(config.url).rstrip('/')}/",
        registry={name: f"sha256:{config.files[name]}" for name in wanted},
        urls={name: f"{str(config.url).rstrip('/')}/{quote(name)}" for name in wanted},
        retry_if_failed=RETRIES,
    )
    paths = []
    for name in wanted:
        try:
            paths.append(Path(source.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT_S))))
        except (requests.RequestException, OSError) as error:
            reason = str(_innermost(error)).strip().splitlines() or [type(error).__name__]
            raise BenchmarkError(
                f"{config.name}: {name} could not be fetched from {config.url} ({reason[0][:200]}). Check the network, "
                "or download it yourself and give benchmark.path=FILE_OR_FOLDER."
            ) from error
        except ValueError as error:  # pooch's word for another hash
            raise BenchmarkError(
                f"{config.name}: {config.url}/{name} is not the file whose sha256 is {config.files[name]}: it was "
                "changed there or on the way, and is not used. Have the right one? Give benchmark.path=FILE_OR_FOLDER."
            ) from error
    return paths


def _folder(config: BenchmarkConfig) -> Path:
    """In the user's cache, a folder of its own for each address."""
    base = os.environ.get("XDG_CACHE_HOME")
    address = hashlib.sha256(str(config.url).encode()).hexdigest()[:16]
    return (Path(base) if base else Path.home() / ".cache") / "benchmark-audit" / "benchmarks" / address


def _innermost(error: BaseException) -> BaseException:
    """What happened, out of the layers that each say it again: no name, no route, no answer in time."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return error
