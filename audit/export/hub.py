"""`audit export hub RUN_DIR`: accuracies as the hub shows them on a model's page: MODEL/.eval_results/BENCHMARK.yaml.

The form is that of https://huggingface.co/docs/hub/eval-results. It asks for the benchmark's dataset on the hub, so a
benchmark that was read from a file is left out, by name.
"""

from collections import defaultdict
from pathlib import Path

from audit.errors import ConfigError
from audit.export.eee import answered, hub_model, safe_name
from audit.export.inspect_log import Tally

FOLDER = "hub"


def export_hub(run_dir: Path, out: Path, task_id: str, source_url: str) -> list[tuple[Path, str]]:
    """Write one file a model and benchmark; each with what is missing in it. ConfigError where no benchmark is one of
    the hub's. The value is accuracy in per cent of the parsed answers, asked as published."""
    import yaml

    from audit.audits import audit_of
    from audit.shards.files import make_folder, write_file
    from audit.shards.manifest import Manifest

    manifest = Manifest.load(run_dir)
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for name, row in answered(run_dir, audit_of(run_dir).schema):
        if name == row["benchmark"]:
            tallies[row["model"], name].add(row)
    both = [one for one in map(manifest.config.get, ("benchmark", "control_benchmark")) if isinstance(one, dict)]
    known = {one["name"]: one["hub"] for one in both if one.get("hub") and not one.get("path")}  # read from the hub
    found = []
    for (model, benchmark), tally in sorted(tallies.items()):
        if benchmark not in known or not tally.parsed:
            continue
        facts, of = manifest.models.get(model, {}), manifest.benchmark.get(benchmark, {})
        notes = f"benchmark-audit {manifest.audit}, run {manifest.fingerprint[:12]}; {of.get('n')} of "
        notes += f"{of.get('n_total', of.get('n'))} items; right {tally.right} of {tally.parsed} parsed answers"
        entry = {
            "dataset": {"id": known[benchmark], "task_id": task_id, "revision": of.get("revision")},
            "value": round(100 * tally.right / tally.parsed, 2),
            "date": (manifest.ended or manifest.started)[:10],
            **({"source": {"url": source_url, "name": "benchmark-audit"}} if source_url else {}),
            "notes": f"{notes}; {tally.said}" if tally.said else notes,
        }
        path = out / safe_name(hub_model(model, facts)) / ".eval_results" / f"{benchmark}.yaml"
        make_folder(path.parent)
        write_file(path, yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).encode())
        found.append((path, tally.said))
    if not found:
        raise ConfigError(
            f"{run_dir} has no parsed answers to a benchmark of the hub, asked as published (its benchmarks: "
            f"{', '.join(sorted({name for _, name in tallies})) or 'none'}). Expected such as benchmark=arc_easy."
        )
    return found
