"""Fetch the files of a benchmark at one commit of the Hugging Face hub, or from another address.

Files from another address must have the sha256 that the configuration states.

huggingface_hub reads the token for the hub, if there is one (HF_TOKEN, or a stored login). The
token is used nowhere else.
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.files import DataFile, missing_shards, select_files, some_names
from audit.core.errors import BenchmarkError, ConfigError

# Branch of the hub with Parquet copies of datasets that are published as scripts.
PARQUET_BRANCH = "refs/convert/parquet"
_CONVERTED = f"read from the hub's parquet conversion ({PARQUET_BRANCH}), because {{}} holds no such file itself."
METADATA_TIMEOUT_S = 20.0
TIMEOUT_S = 30.0  # seconds to wait for an answer from `config.url`
RETRIES = 2
_COMMIT = re.compile(r"[0-9a-f]{40}")

# the commit, the files in order, and notes
Snapshot = tuple[str, tuple[DataFile, ...], tuple[str, ...]]


def fetch(config: BenchmarkConfig, suffixes: Sequence[str]) -> Snapshot:
    """Download the files of a configuration and split into the hub's cache.

    Parameters
    ----------
    config : BenchmarkConfig
        Settings that name the dataset, its configuration, its split and its revision.
    suffixes : sequence of str
        Kinds of files, in order of preference.

    Returns
    -------
    Snapshot
        A tuple (commit, files, notes). Without a network, the files of a pinned commit are read
        from the cache.

    Raises
    ------
    BenchmarkError
        If the files cannot be fetched. The message states what to do.
    """
    # The import is slow, and local benchmarks do not need it.
    from huggingface_hub import errors, hf_hub_download

    # If the network is down, the HTTP client raises its base error. The client is httpx in
    # huggingface_hub 1, and httpx2 in version 2.
    (client_error, *_) = errors.HfHubHTTPError.__bases__
    try:
        repository = str(config.hub)
        notes: tuple[str, ...] = ()
        commit, names = _listed(repository, config.revision)
        chosen = _choose(names, config, suffixes)
        if not chosen and config.revision is None:
            try:
                commit, converted = _listed(repository, PARQUET_BRANCH)
            except errors.RevisionNotFoundError as error:
                raise _no_files(config, names) from error
            chosen = _choose(converted, config, suffixes)
            notes = (_CONVERTED.format(repository),)
        if not chosen:
            raise _no_files(config, names)
        paths = []
        for name in chosen:
            paths.append(hf_hub_download(repository, name, repo_type="dataset", revision=commit))
    except (errors.HfHubHTTPError, errors.HFValidationError, client_error, OSError) as error:
        cached = None if _refused(error) else _from_cache(config, suffixes)
        if cached is None:
            raise _explained(config, error) from error
        return cached
    return commit, _files(config, chosen, paths), notes


def _listed(repository: str, revision: str | None) -> tuple[str, list[str]]:
    """Return the commit of a revision, and the names of its files."""
    from huggingface_hub import HfApi

    info = HfApi().dataset_info(repository, revision=revision, timeout=METADATA_TIMEOUT_S)
    return str(info.sha), [sibling.rfilename for sibling in info.siblings or []]


def _choose(names: Sequence[str], config: BenchmarkConfig, suffixes: Sequence[str]) -> list[str]:
    complete = []
    for name in names:
        if not re.search("(?:^|/)partial-", name):
            complete.append(name)
    return select_files(
        complete, config=config.hub_config, split=config.split, suffixes=suffixes, strict=True
    )


def _from_cache(config: BenchmarkConfig, suffixes: Sequence[str]) -> Snapshot | None:
    """Return the snapshot of a pinned commit from the cache.

    Return None if the revision is not pinned, or if its files are not in the cache.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if config.revision is None or not _COMMIT.fullmatch(config.revision):
        return None
    pinned = {"repo_type": "dataset", "revision": config.revision, "local_files_only": True}
    try:
        folder = Path(snapshot_download(str(config.hub), **pinned))
    except LocalEntryNotFoundError:
        return None
    names = []
    for p in folder.rglob("*"):
        if p.is_file():
            names.append(p.relative_to(folder).as_posix())
    chosen = _choose(names, config, suffixes)
    if not chosen or missing_shards(chosen):  # The cache may be incomplete.
        return None
    return config.revision, _files(config, chosen, [str(folder / name) for name in chosen]), ()


def _files(
    config: BenchmarkConfig, names: Sequence[str], paths: Sequence[str]
) -> tuple[DataFile, ...]:
    files = []
    for name, path in zip(names, paths, strict=True):
        files.append(DataFile(Path(path), f"{config.hub}/{name}"))
    return tuple(files)


def _no_files(config: BenchmarkConfig, names: Sequence[str]) -> BenchmarkError:
    data = sorted(n for n in names if n.endswith((".parquet", ".jsonl", ".json", ".csv", ".py")))
    listing = some_names(data, 8)
    at = f" at {config.revision}" if config.revision else ""
    return BenchmarkError(
        f"{config.hub}{at} has no file of configuration {config.hub_config or '(default)'!r} and "
        f"split {config.split!r}. Its data files: {listing}. Set benchmark.hub_config=... and "
        "benchmark.split=..., or download the file and set benchmark.path=FILE."
    )


def _refused(error: Exception) -> bool:
    """Return whether the hub refused the request; False if the network failed.

    After a refusal no cached copy is used, since the dataset may be withdrawn or misspelt.
    """
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is not None and 400 <= status < 500 and status not in (408, 429)


def _explained(config: BenchmarkConfig, error: Exception) -> BenchmarkError:
    from huggingface_hub import errors

    local = "or download it yourself and set benchmark.path=FILE_OR_FOLDER"
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    # The order of the types matters, because GatedRepoError is a subclass of
    # RepositoryNotFoundError.
    known = {
        errors.GatedRepoError: f"is gated: accept its terms at its hub page, then set HF_TOKEN to your token, {local}",
        errors.RevisionNotFoundError: f"has no revision {config.revision!r}: give one, such as benchmark.revision=main",
        errors.RepositoryNotFoundError: f"is not on the hub, or private: check the spelling, or set HF_TOKEN, {local}",
        errors.HFValidationError: "is not a dataset id: expected owner/name, such as benchmark.hub=allenai/ai2_arc",
        Exception: f"could not be fetched ({reason}): check the network, HF_ENDPOINT if you use a mirror, {local}",
    }
    problems = []
    for kind, text in known.items():
        if isinstance(error, kind):
            problems.append(text)
    return BenchmarkError(f"The hub dataset {config.hub!r} {problems[0]}.")


def fetch_pinned(config: BenchmarkConfig, wanted: list[str]) -> list[Path]:
    """Fetch files whose sha256 is known, from the cache or from `config.url`.

    Parameters
    ----------
    config : BenchmarkConfig
        Settings with the address, and with the sha256 of each file.
    wanted : list of str
        Names of the files.

    Returns
    -------
    list of Path
        Paths of the files, in the order of `wanted`.

    Raises
    ------
    ConfigError
        If the address contains credentials.
    BenchmarkError
        If a file cannot be fetched, or has another sha256.
    """
    # Local benchmarks do not need these imports.
    import pooch
    import requests

    if "@" in urlsplit(str(config.url)).netloc:
        raise ConfigError(
            "benchmark.url contains a user name or key, which would be stored with the run. Leave "
            "out the name or key."
        )
    pooch.get_logger().setLevel(logging.WARNING)
    address = f"{str(config.url).rstrip('/')}/"
    # The files of each address have their own folder in the cache.
    folder = hashlib.sha256(str(config.url).encode()).hexdigest()[:16]
    registry = {name: f"sha256:{config.files[name]}" for name in wanted}
    source = pooch.create(
        path=Path(pooch.os_cache("benchmark-audit"), "benchmarks", folder),
        base_url=address,
        registry=registry,
        urls={name: address + quote(name) for name in wanted},
        retry_if_failed=RETRIES,
    )
    paths = []
    for name in wanted:
        try:
            paths.append(
                Path(source.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT_S)))
            )
        except (requests.RequestException, OSError) as error:
            reason = str(_innermost(error)).strip().splitlines() or [type(error).__name__]
            raise BenchmarkError(
                f"{config.name}: {name} could not be fetched from {config.url} "
                f"({reason[0][:200]}). If you have the file, set benchmark.path=FILE_OR_FOLDER."
            ) from error
        except ValueError as error:  # pooch raises ValueError if the file has another hash.
            raise BenchmarkError(
                f"{config.name}: the sha256 of {config.url}/{name} is not {config.files[name]}. If "
                "you have the expected file, set benchmark.path=FILE_OR_FOLDER."
            ) from error
    return paths


def _innermost(error: BaseException) -> BaseException:
    """Return the first cause of an error, such as an unknown host, a missing route or a timeout."""
    cause: BaseException | None = error
    while cause is not None:
        error, cause = cause, cause.__cause__ or cause.__context__
    return error
