"""The same edits of a run that lies on object storage: the gate answers as it does in a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands_here import gate
from governed import Capsys
from s3_server import CREDENTIALS, S3Server, s3_server
from test_attack_runs import EDITS, JUDGED

# What lies beside the listed shards is no part of a run there: a start that was killed may have
# left it. All were tried once. What changes neither which files there are nor how they are fetched
# is read from the copy, as any folder's: the report, and what the manifest says of the run.
FETCHED = ("no shards", "a shard more", "not JSON", "a list", "as deep as a well", "gone")
TRIED = [name for name in EDITS if not name.startswith(("verdict: ", "manifest: "))]
TRIED += [*(f"manifest: {file}" for file in FETCHED), "verdict: one word", "verdict: gone"]
# Each takes two CPU seconds: of every way to edit a run one, and the others are long.
SHORT = {
    "nothing",
    "manifest: gone",
    "manifest: a shard more",
    "shards: a bit",
    "verdict: one word",
}
BESIDE = {"shards: one twice", "shards: an empty file", "shards: a file of something else"}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield server


@pytest.mark.parametrize(
    "name",
    [case if case in SHORT else pytest.param(case, marks=pytest.mark.long) for case in TRIED],
)
def test_an_edited_run_on_object_storage_does_not_pass(
    name: str, s3: S3Server, run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    EDITS[name](run_dir)
    run = f"bucket/{list(EDITS).index(name)}"
    for path in filter(Path.is_file, run_dir.rglob("*")):
        with s3.files.open_output_stream(f"{run}/{path.relative_to(run_dir)}") as stream:
            stream.write(path.read_bytes())
    assert gate([s3.url(run), "--keys", str(keys / "trusted")]) == (
        5 if name in BESIDE | JUDGED else 1
    )
    output = capsys.readouterr()
    assert not any(secret in output.out + output.err for secret in CREDENTIALS.values())
