"""Real files in their published formats; the counts are those of shared/data/README.md."""

import json
from collections import Counter
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.benchmarks.registry import FORMATS
from audit.benchmarks.sample import draw_sample

ROOT = Path(__file__).resolve().parents[3]


def configured(name: str, **overrides: object) -> BenchmarkConfig:
    """conf/benchmark/<name>.yaml under the schema, as Hydra composes it."""
    file = OmegaConf.load(ROOT / "conf" / "benchmark" / f"{name}.yaml")
    merged = OmegaConf.merge(OmegaConf.structured(BenchmarkConfig), file, overrides)
    config = OmegaConf.to_object(merged)
    assert isinstance(config, BenchmarkConfig)
    return config


def opened(name: str, seed: int = 42, **overrides: object) -> Benchmark:
    return open_benchmark(configured(name, **overrides), seed=seed)


def test_every_known_benchmark_has_a_valid_configuration_of_its_name() -> None:
    files = {path.stem for path in (ROOT / "conf" / "benchmark").glob("*.yaml")}
    assert files >= set(FORMATS)
    for name in files:
        config = configured(name)
        assert (
            config.name == name
            and config.format in FORMATS
            and (name not in FORMATS or config.format == name)
        )
        assert config.hub or config.url or name in ("mcq_file", "elementary", "contrast")


def test_mmlu(shared_data: Path) -> None:
    benchmark = opened("mmlu", path=str(shared_data / "mmlu"))
    sample = draw_sample(benchmark, None)
    assert sample.n_total == 14_042
    assert sum(len(group) - 1 for group in sample.duplicates) == 105 == sample.n_total - sample.n
    assert benchmark.census.repeated_options == 9
    assert sample.chance == 0.25
    questions = list(benchmark.iter_questions())
    assert len({q.group for q in questions}) == 57
    first = questions[0]
    assert (first.id, first.options, first.gold) == (
        "mmlu/abstract_algebra/0",
        ("0", "4", "2", "6"),
        1,
    )
    texts = Counter(option for q in questions for option in q.options)
    assert texts["None"] == 10  # text, not a missing value
    assert any("\n" in q.text for q in questions)


def test_mmlu_subjects_keep_their_ids(shared_data: Path) -> None:
    subjects = opened("mmlu", path=str(shared_data / "mmlu"), subjects=["astronomy", "virology"])
    assert Counter(q.group for q in subjects.iter_questions()) == {
        "mmlu/astronomy": 152,
        "mmlu/virology": 166,
    }
    astronomy = opened("mmlu", path=str(shared_data / "mmlu" / "test" / "astronomy_test.csv"))
    assert [q for q in subjects.iter_questions() if q.group == "mmlu/astronomy"] == list(
        astronomy.iter_questions()
    )


def test_truthfulqa_is_shuffled_where_nothing_else_is_said(shared_data: Path) -> None:
    """Of 817 questions whose key is published first 186 would show it first by chance; six
    deviations are below 80."""
    shown = list(
        opened(
            "truthfulqa_mc1", path=str(shared_data / "truthfulqa" / "mc_task.json")
        ).iter_questions()
    )
    assert len(shown) == 817 and abs(sum(q.gold == 0 for q in shown) - 186) < 80
    assert all(q.order[q.gold] == 0 for q in shown)


@pytest.mark.parametrize(
    ("name", "folder", "n", "numeric"),
    [("arc_challenge", "ARC-Challenge", 299, 4), ("arc_easy", "ARC-Easy", 570, 21)],
)
def test_arc_gold_is_a_label(
    shared_data: Path, name: str, folder: str, n: int, numeric: int
) -> None:
    path = shared_data / "arc" / folder / f"{folder}-Dev.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    questions = list(opened(name, path=str(path)).iter_questions())
    assert len(questions) == n
    assert sum(row["answerKey"].isdecimal() for row in rows) <= numeric
    assert sum(row["question"]["choices"][0]["label"] == "1" for row in rows) == numeric
    for row, question in zip(rows, questions, strict=True):
        [gold] = [c["text"] for c in row["question"]["choices"] if c["label"] == row["answerKey"]]
        assert question.id == row["id"] and question.options[question.gold] == gold.strip()
    assert (
        list(opened(name, path=str(shared_data / "arc"), split="validation").iter_questions())
        == questions
    )
