"""The shipped dashboard and alerts ask for metrics that exist; the alerts fire when they should, by
promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from audit.runtime.stages import METRICS

MONITORING = Path(__file__).resolve().parents[3] / "cluster" / "monitoring"
REFERENCE = MONITORING.parents[1] / "docs" / "reference" / "metrics.md"


def test_what_is_watched_and_documented_is_what_is_counted() -> None:
    known = {f"audit_{name}_total" for name in METRICS}
    panels = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    watched = "\n".join(target["expr"] for panel in panels for target in panel["targets"])
    assert (
        set(re.findall(r"ray_(audit_\w+)", watched)) == known
    )  # nothing is counted that no panel shows
    assert set(re.findall(r"ray_(audit_\w+)", (MONITORING / "alerts.yaml").read_text())) <= known
    text = REFERENCE.read_text()
    rows = re.findall(r"^\| `(audit_\w+_total)` \|", text, re.MULTILINE)
    assert set(re.findall(r"`(audit_\w+_total)`", text)) == set(rows) == known


def test_every_alert_is_a_rule_that_prometheus_reads() -> None:
    """Names and types of fields, closed brackets and known durations; promtool reads all of it."""
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert re.fullmatch(r"[A-Za-z_]\w*", rule["alert"]) and rule["annotations"]
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
        texts = [rule["expr"], *rule["annotations"].values(), *rule.get("labels", {}).values()]
        assert all(isinstance(text, str) and text for text in texts)
        depth = [rule["expr"].count(bracket) for bracket in "()[]{}"]
        assert depth[::2] == depth[1::2], rule["expr"]
        assert re.findall(r"\[[^\]]*\]", rule["expr"]) == re.findall(r"\[\d+[smhd]\]", rule["expr"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """0-30 minutes: 50 rows a minute, a fifth unparsed, a tenth errors, 4 USD. Then nothing
    moves."""

    def series(name: str, each: int, labels: str = 'model="m",arm="noisy"') -> dict[str, str]:
        return {
            "series": f"ray_audit_{name}_total{{{labels}}}",
            "values": f"0+{each}x30 {30 * each}x60",
        }

    inputs = [series("questions_done", 50), series("parse_failures", 10), series("errors", 5)]
    inputs.append(series("cost", 4, 'model="m",currency="USD"'))
    fires = {
        "AuditStalled": (52, 25),
        "AuditUnparsed": (20, 60),
        "AuditErrors": (20, 60),
        "AuditCost": (40, 10),
    }
    for alert, (firing, quiet) in fires.items():
        assert [_promtool(tmp_path, inputs, alert, at) for at in (firing, quiet)] == [
            True,
            False,
        ], alert


def _promtool(folder: Path, inputs: list[dict[str, str]], alert: str, minute: int) -> bool:
    """Whether the alert is firing then: promtool compares with no alert at all, and prints what it
    got."""
    test = {
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": inputs,
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
                ],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "test.yaml")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 or f"alertname: {alert}" in done.stdout + done.stderr, done.stderr
    return done.returncode != 0
