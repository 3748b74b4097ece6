"""Custom metrics, shown in the Ray dashboard and scraped by Prometheus, labelled by model and arm.

cluster/monitoring has a Grafana dashboard and Prometheus alerts for them.
"""

from ray.util.metrics import Counter

METRICS = {
    "generations": "Engine calls answered",
    "tokens": "Tokens processed",
    "questions_done": "Rows stored, one a question and setting",
    "parse_failures": "Replies without a readable answer",
    "errors": "Rows without an answer because a call failed",
    "retries": "Endpoint calls that were tried again",
    "cost": "Money spent by this start of the run, in the currency of cost.currency",
}


class AuditMetrics:
    """Counters of one stage process. Created there: a counter belongs to the process that increments it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._counters: dict[str, Counter] = {}

    def _add(self, name: str, value: float, **tags: str) -> None:
        if value <= 0:
            return
        if name not in self._counters:
            self._counters[name] = Counter(f"audit_{name}_total", METRICS[name], tag_keys=("model", *tags))
        self._counters[name].inc(value, tags={"model": self._model, **tags})

    def generations(
        self, arm: str, engine: str, role: str, calls: int, prompt: int, cached: int, completion: int
    ) -> None:
        """engine: the endpoint or engine that answered."""
        self._add("generations", calls, arm=arm, engine=engine, role=role)
        for kind, tokens in (("prompt", prompt), ("cached", cached), ("completion", completion)):
            self._add("tokens", tokens, arm=arm, engine=engine, kind=kind)

    def stored(self, arm: str, rows: int, parse_failures: int, errors: int) -> None:
        self._add("questions_done", rows, arm=arm)
        self._add("parse_failures", parse_failures, arm=arm)
        self._add("errors", errors, arm=arm)

    def retries(self, value: float) -> None:
        self._add("retries", value, arm="all")

    def cost(self, value: float, currency: str) -> None:
        self._add("cost", value, arm="all", currency=currency)
