"""For a benchmark's author: items and options in a random order that is recorded.

example: audit publish exam.jsonl id_column=id question_column=stem --out exam_public
"""

import json
import secrets
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.errors import ConfigError, check_seed
from audit.core.exits import say


def add_words(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, help="as benchmark=mcq_file reads it")
    add("overrides", nargs="*", metavar="KEY=VALUE", help="of the benchmark: its columns")
    add("--out", type=Path, required=True, metavar="FOLDER")
    add("--seed", type=int, help="default: drawn, and recorded")


def run(asked: Namespace) -> int:
    """Write FOLDER/NAME.jsonl, to publish, and FOLDER/NAME.order.json, to keep."""
    check_seed(asked.seed or 0)
    from omegaconf import OmegaConf

    from audit.benchmarks.config import BenchmarkConfig
    from audit.benchmarks.load import open_benchmark
    from audit.config.base import check_keys
    from audit.memory.items import draw_order, order_sha256
    from audit.shards.files import make_folder, write_file

    base = OmegaConf.structured(
        BenchmarkConfig(name=asked.file.stem, format="mcq_file", path=str(asked.file))
    )
    told = OmegaConf.from_dotlist(list(asked.overrides))
    check_keys(OmegaConf.to_container(told), BenchmarkConfig)
    config: BenchmarkConfig = OmegaConf.to_object(OmegaConf.merge(base, told))
    source = open_benchmark(config)
    seed = secrets.randbits(64) if asked.seed is None else asked.seed
    items, places = draw_order(list(source.iter_questions()), seed)
    grouped = any(one.group != one.id for one in items)
    rows = [
        {"id": one.id, "question": one.text, "choices": one.options, "answer": one.gold}
        | ({"group": one.group} if grouped else {})
        for one in items
    ]
    record = {
        "version": 1,
        "seed": seed,
        "source": source.revision,
        "published_sha256": order_sha256(items),
        "order": places,
        "options": [one.options for one in items],
    }
    file, kept = asked.out / f"{config.name}.jsonl", asked.out / f"{config.name}.order.json"
    if there := [str(one) for one in (file, kept) if one.exists()]:
        raise ConfigError(
            f"{', '.join(there)} exists, and an order is drawn once. Expected another --out or name=..."
        )
    make_folder(asked.out)
    write_file(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    write_file(kept, json.dumps(record, ensure_ascii=False).encode())
    kept.chmod(0o600)
    columns = "benchmark.id_column=id benchmark.answer_as=index" + (
        " benchmark.group_column=group" if grouped else ""
    )
    say(f"publish  {file}")
    say(f"keep     {kept}")
    say(
        f"then     audit memory benchmark=mcq_file benchmark.path={file} {columns} published_order={kept}"
    )
    return 0
