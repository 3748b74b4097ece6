import subprocess
import sys

from audit.engines.processes import causes

LOG = """\
(EngineCore pid=7) INFO 11-21 10:00:00 [core.py:91] Initializing an engine, max_error_rate=0
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:901] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_cause_is_found_once_and_the_pointer_to_it_is_left_out(tmp_path):
    log = tmp_path / "worker.out"
    log.write_text(LOG)
    assert causes([log]) == ["torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"]


def test_no_secret_is_quoted(tmp_path):
    log = tmp_path / "worker.err"
    log.write_text("ValueError: bad token hf_abcdefghijklmnopqrstuv in the header\n")
    assert causes([log]) == ["ValueError: bad token <removed> in the header"]


def test_a_log_without_an_error_says_nothing(tmp_path):
    log = tmp_path / "worker.out"
    log.write_bytes(b"\xff\xfe loading weights\n" * 3)
    assert causes([log]) == []


def test_a_process_finds_the_files_it_writes_to(tmp_path):
    out = tmp_path / "worker.out"
    code = (
        "import sys; print('ValueError: no such layer', flush=True);"
        "from audit.engines.processes import explain; sys.stderr.write(explain())"
    )
    with out.open("wb") as file:
        done = subprocess.run([sys.executable, "-c", code], stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    assert "ValueError: no such layer" in done.stderr and str(out) in done.stderr
