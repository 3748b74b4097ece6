"""As a cluster's users do it: `ray job submit`, its status and shards, and the metrics that
Prometheus scrapes."""

import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from paths import RAY, ROOT
from pipeline_helpers import keys_of
from ray.job_submission import JobStatus, JobSubmissionClient

pytestmark = pytest.mark.long  # the job sets up an environment and runs a driver of its own

SWEEP = [
    "r=1..2",
    "n=40",
    "draws=nested",
    "ensemble_control=false",
    "clean_replicates=1",
    "noisy_replicates=1",
    "report=false",
    "model.scripted.scripted.latency_s=1",
    "cluster.chunks_in_flight=1",
    "store.rows_per_shard=10",
]


def test_ray_job_submit_runs_the_sweep_and_its_metrics_are_exported(cluster, tmp_path):
    run_dir = tmp_path / "run"
    submit = [
        RAY,
        "job",
        "submit",
        "--address",
        cluster.dashboard,
        "--runtime-env",
        "jobs/runtime_env.yaml",
        "--submission-id",
        "audit-test",
        "--no-wait",
        "--",
        "python",
        "-m",
        "audit.sweep",
        "model=scripted",
        f"run_dir={run_dir}",
        *SWEEP,
    ]
    done = subprocess.run(
        submit, cwd=ROOT, env=cluster.env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    jobs = JobSubmissionClient(cluster.dashboard)
    metrics, status, deadline = "", JobStatus.PENDING, time.monotonic() + 900
    while time.monotonic() < deadline and not status.is_terminal():
        scraped = scrape(cluster.metrics)
        if "audit_questions_done_total" in scraped:
            metrics = scraped
        status = jobs.get_job_status("audit-test")
        time.sleep(1)
    assert status == JobStatus.SUCCEEDED, jobs.get_job_logs("audit-test")[-3000:]
    assert len(keys_of(run_dir)) == 40 * 4
    for name in ("generations", "questions_done", "tokens"):
        match = re.search(rf'ray_audit_{name}_total\{{[^}}]*model="scripted"', metrics)
        assert match, f"audit_{name}_total is not exported; {len(metrics)} characters were scraped"
    assert re.search(r'ray_audit_questions_done_total\{[^}]*arm="noisy_rewrite"', metrics)


def scrape(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return reply.read().decode()
    except (urllib.error.URLError, TimeoutError):  # the exporter starts a little after the node
        return ""
