"""Download published answers as a reference set (answers of models that serve as references).

The files come from one commit of the authors' repository. The answers in each file must have a
known sha256.

A hash does not cover the whole file. It covers only the fields of each record that the reference
set stores (`Recipe.row_of`). `audit/data/references/NAME.csv` has one hash for each model. Because
of the hashes, a mirror or a local copy can be used in place of the repository.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from audit.config.references import ReferenceSet, known_sets, sets_folder
from audit.core.errors import ConfigError, DataError, check_known
from audit.imports.join import Joined, leave_out_changed
from audit.imports.record import MAX_DOCUMENT, Wanted, document, member, open_zip, rows_of
from audit.imports.sets import FACTS, build_set
from audit.imports.table import read_table
from audit.imports.write import RunFacts, write_run

TIMEOUT_S = 30.0  # time limit in seconds between two bytes from the server
TAIL = 160  # number of characters kept from the end of a reply, since the end holds the answer


@dataclass(frozen=True)
class Recipe:
    """Describe where the answers of a reference set are published.

    `file` is the path of a model's file in the repository, with {} in place of the model's name.
    `row_of` is a function that converts a published record to a row of the reference set.
    """

    benchmark: str
    repository: str
    commit: str
    licence: str
    file: str
    row_of: Callable[[Any], dict[str, Any]]

    @property
    def address(self) -> str:
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}"


def _zeroeval(record: Any) -> dict[str, Any]:
    return {
        "item": record["session_id"],
        "gold": record["answer"],
        "reply": record["output"][0][-TAIL:],
    }


def _mmlu_pro(record: Any) -> dict[str, Any]:
    return {
        "item": str(record["question_id"]),
        "gold": record["answer"],
        "options": len(record["options"]),
        "answer": record["pred"],
    }


RECIPES = {
    "gsm8k_zeroeval": Recipe(
        "gsm8k",
        "WildEval/ZeroEval",
        "8c1485edf12c6efb5f69135a562927c5ad484059",
        "Apache-2.0",
        "result_dirs/gsm/{}.json",
        _zeroeval,
    ),
    "mmlu_pro": Recipe(
        "mmlu_pro",
        "TIGER-AI-Lab/MMLU-Pro",
        "f418b116db00b065c2aea046518d8fcf74d39872",
        "Apache-2.0",
        "eval_results/model_outputs_{}_5shots.zip",
        _mmlu_pro,
    ),
}


def fetch_set(name: str, source: str = "", say: Callable[[str], object] = print) -> ReferenceSet:
    """Download the answers of all models of a recipe, and write them as a reference set.

    Parameters
    ----------
    source : str
        A folder with the files, or another address that serves the files. "" downloads them from
        the repository, at the recipe's commit.

    Raises
    ------
    ConfigError
        If the recipe is unknown, or the set exists already.
    DataError
        If a file cannot be downloaded, or if its answers differ from the published answers.

    Notes
    -----
    The set is written completely or not at all. Downloaded files are deleted when the set is
    complete.
    """
    check_known("published set", name, RECIPES)
    if name in known_sets():
        raise ConfigError(
            f"The reference set {name} exists already, and sets never change. To see it: audit "
            f"references show {name}"
        )
    recipe, files = RECIPES[name], []
    fetched = sets_folder() / f".{name}.files"
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "answers.jsonl")
        with table.open("w", encoding="utf-8") as out:
            models = pinned(name)
            for k, (model, wanted) in enumerate(models.items(), 1):
                say(f"{k} of {len(models)}  {model}")
                rows = answers_of(recipe, model, wanted, source or recipe.address, fetched)
                out.writelines(json.dumps({"model": model, **row}) + "\n" for row in rows)
                file = Path(recipe.file.format(model)).name
                files.append(
                    {
                        "file": file,
                        "sha256": wanted,
                        "tool": recipe.repository,
                        "version": recipe.commit,
                    }
                )
        joined = Joined()
        joined.add(
            table.name, read_table(table, "jsonl", Wanted(benchmark=recipe.benchmark)).outcomes
        )
        left_out = leave_out_changed(joined)
        facts = RunFacts(
            joined.models, recipe.benchmark, None, files, {"left_out": {"changed": left_out}}
        )
        write_run(Path(folder, "run"), joined, facts)
        about = f"{recipe.repository} {recipe.commit}"
        new = build_set(Path(folder, "run"), name, about, recipe.licence, Path(name))
    shutil.rmtree(fetched, ignore_errors=True)
    return new


def pinned(name: str) -> dict[str, str]:
    """Return a mapping from each model of a recipe to the sha256 of the model's answers.

    The mapping is shipped with the program.
    """
    hashes = {}
    for _, row in rows_of(FACTS / f"{name}.csv", ".csv"):
        hashes[row["model"]] = row["sha256"]
    return hashes


def answers_sha256(rows: Iterable[dict[str, Any]]) -> str:
    """Return the hash of the stored fields of all records. The order of the records does not
    matter.
    """
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def answers_of(
    recipe: Recipe, model: str, wanted: str, source: str, fetched: Path
) -> list[dict[str, Any]]:
    """Return the stored fields of each record in a model's file.

    Parameters
    ----------
    wanted : str
        The sha256 that the answers should have.
    source : str
        A folder with the files, or an address from which files are downloaded to `fetched`.

    Raises
    ------
    ConfigError
        If the folder lacks the file.
    DataError
        If the file cannot be downloaded completely, or if its answers have another hash.
    """
    file = recipe.file.format(model)
    if "://" in source:
        path, where = fetched / Path(file).name, f"{source.rstrip('/')}/{quote(file)}"
        if not path.is_file():
            _download(recipe, where, path)
    else:
        candidates = (Path(source, file), Path(source, Path(file).name))
        path = next(filter(Path.is_file, candidates), Path(source))
        where = str(path)
        if path.is_dir() or not path.exists():
            raise ConfigError(
                f"{source} has no {file}. Expected a copy of its repository: {_by_hand(recipe)}"
            )
    try:
        rows = [recipe.row_of(record) for record in _records(path)]
    except (DataError, LookupError, TypeError) as error:
        rows, why = [], f"cannot be read ({error!r:.200})"
    else:
        why = f"has other answers: their sha256 is {answers_sha256(rows)}"
    if answers_sha256(rows) != wanted:
        if "://" in source:
            path.unlink()
        raise DataError(
            f"{where} {why}; expected {wanted}. The file was changed at its source or during the "
            "download, and is not used."
        )
    return rows


def _records(path: Path) -> list[Any]:
    if path.suffix != ".zip":
        return list(document(path))
    with open_zip(path) as archive:
        records: list[Any] = []
        for name in archive.namelist():
            if name.endswith(".json") and not name.startswith("__MACOSX"):
                records += member(archive, name, MAX_DOCUMENT)
        return records


def _download(recipe: Recipe, url: str, path: Path) -> None:
    """Download the file at an address.

    A redirect to another address is refused. An incomplete file is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    try:
        with (
            httpx2.stream("GET", url, timeout=TIMEOUT_S, follow_redirects=False) as reply,
            beside.open("wb") as file,
        ):
            if reply.status_code != httpx2.codes.OK:
                raise DataError(f"status {reply.status_code}, expected 200")
            for chunk in reply.iter_bytes():
                if file.tell() + len(chunk) > MAX_DOCUMENT:
                    raise DataError(f"more than {MAX_DOCUMENT:,} bytes")
                file.write(chunk)
        beside.rename(path)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, DataError) as error:
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{url} could not be fetched ({reason}). "
            f"Without a network, copy the repository: {_by_hand(recipe)}"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _by_hand(recipe: Recipe) -> str:
    return (
        f"`git clone https://github.com/{recipe.repository} copy && git -C copy checkout {recipe.commit}`, then "
        "`audit references fetch NAME --from copy`."
    )
