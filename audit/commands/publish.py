"""Write a benchmark's items and options in a random order, and record the order.

A benchmark's author publishes the items and keeps the record.

example: audit publish exam.jsonl id_column=id question_column=stem --out exam_public
"""

import json
import secrets
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.errors import ConfigError, check_seed
from audit.core.exits import say


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: the file of items, its columns, and the folder to write."""
    add = parser.add_argument
    add("file", type=Path, help="a file of items that benchmark=mcq_file can read")
    add("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the benchmark: its columns")
    add("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    add("--seed", type=int, help="seed of the order (default: a random seed, which is recorded)")


def run(arguments: Namespace) -> int:
    """Write FOLDER/NAME.jsonl to publish, and FOLDER/NAME.order.json for the author alone.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ConfigError
        If one of the files exists.
    """
    check_seed(arguments.seed or 0)
    from omegaconf import OmegaConf

    from audit.benchmarks.config import BenchmarkConfig
    from audit.benchmarks.load import open_benchmark
    from audit.config.base import check_keys
    from audit.memory.items import draw_order, order_sha256
    from audit.shards.files import make_folder, write_file

    base = OmegaConf.structured(
        BenchmarkConfig(name=arguments.file.stem, format="mcq_file", path=str(arguments.file))
    )
    settings = OmegaConf.from_dotlist(list(arguments.overrides))
    check_keys(OmegaConf.to_container(settings), BenchmarkConfig)
    config: BenchmarkConfig = OmegaConf.to_object(OmegaConf.merge(base, settings))
    source = open_benchmark(config)
    seed = secrets.randbits(64) if arguments.seed is None else arguments.seed
    items, places = draw_order(list(source.iter_questions()), seed)
    grouped = any(item.group != item.id for item in items)
    published = ""
    for item in items:
        row = {"id": item.id, "question": item.text, "choices": item.options, "answer": item.gold}
        if grouped:
            row["group"] = item.group
        published += json.dumps(row, ensure_ascii=False) + "\n"
    record = {
        "version": 1,
        "seed": seed,
        "source": source.revision,
        "published_sha256": order_sha256(items),
        "order": places,
        "options": [item.options for item in items],
    }
    file, order_file = (
        arguments.out / f"{config.name}.jsonl",
        arguments.out / f"{config.name}.order.json",
    )
    existing = [str(path) for path in (file, order_file) if path.exists()]
    if existing:
        raise ConfigError(
            f"{', '.join(existing)} exists. Expected a new file, because an order is drawn only once. "
            "Example: another --out or name=..."
        )
    make_folder(arguments.out)
    write_file(file, published.encode())
    write_file(order_file, json.dumps(record, ensure_ascii=False).encode())
    order_file.chmod(0o600)
    columns = "benchmark.id_column=id benchmark.answer_as=index"
    if grouped:
        columns += " benchmark.group_column=group"
    say(f"publish  {file}")
    say(f"keep     {order_file}")
    command = f"audit memory benchmark=mcq_file benchmark.path={file} {columns}"
    say(f"then     {command} published_order={order_file}")
    return 0
