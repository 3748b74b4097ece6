"""Ask a judge model (judge=<model>) to vote on the replies of a finished run, and store the votes.

The judge runs in RUN_DIR/judge, like the judge of a library of variants (`audit.variants.ask`). The
report reads RUN_DIR/judgements.arrow, which holds the votes by question and reply, and the judge's
agreement with labelled replies.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.config.base import load_model_config
from audit.core.errors import ShardError
from audit.engines.weights import resolve_weights
from audit.scoring.refusal import decided, judge_key, judge_prompt, prompt_sha256, read_vote
from audit.shards.read import iter_rows, write_table
from audit.validity.audit import SCHEMA
from audit.validity.config import ValidityConfig
from audit.validity.labels import Labelled, agreed, read_labels, sentence
from audit.variants.record import Generate, votes_on

FILE = "judgements.arrow"
_SCHEMA = pa.schema([("key", pa.string()), ("votes", pa.list_(pa.string()))])
Row = dict[str, Any]


@dataclass(frozen=True)
class Judgements:
    """Hold the votes of a judge.

    Attributes
    ----------
    votes : mapping of str to tuple of str
        Maps the `judge_key` of each reply to the votes on that reply.
    about : mapping
        Facts about the judge: its name and revision, the number of votes, the hash of the prompt,
        and its agreement with labelled replies (None without labels).
    """

    votes: Mapping[str, tuple[str, ...]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def read(self, row: Row) -> None:
        """Replace the answer in a row by the answer that the judge's votes give.

        A row without a reply is not changed.

        Parameters
        ----------
        row : Row
            A row of a shard. The function changes this row.
        """
        if not row["asked"] or row["error"] is not None:
            return
        response, why = decided(self.votes.get(judge_key(row["edited"], row["response"]), ()))
        row["unread_why"] = why
        row["answer"] = None if response is None else list(row["option_order"]).index(response)
        row["correct"] = None if response is None else response == row["key_after"]


def judge_run(run_dir: Path, config: ValidityConfig, judge: str) -> None:
    """Let the judge vote on every reply of a run and on every labelled reply, and store the votes.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    config : ValidityConfig
        The options of the run.
    judge : str
        Name of the judge.

    Raises
    ------
    EngineError
        If the judge cannot be run.
    """
    from audit.config.resolve import revision_of
    from audit.variants.ask import JUDGE, ask_model
    from audit.variants.config import VariantsConfig

    model = config.model.get(judge) or load_model_config(judge)
    labelled = read_labels(Path(config.labels)) if config.labels is not None else ()
    asking = VariantsConfig(
        benchmark=config.benchmark,
        name=config.benchmark.name,
        seed=config.seed,
        out=str(run_dir / "judge"),
        cluster=config.cluster,
        store=config.store,
        progress=config.progress,
    )

    weights = resolve_weights(model) if model.engine == "vllm" else None
    ask = partial(ask_model, asking, model, JUDGE)
    voted = judgements(replies_in(run_dir), labelled, ask, votes=config.judge_votes)
    about = {"judge": model.name, "revision": revision_of(model, weights), **voted.about}
    write_judgements(Judgements(voted.votes, about), run_dir)


def replies_in(run_dir: Path) -> list[tuple[str, str]]:
    """Return every reply of a run with its question.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    list of (str, str)
        Pairs of the question as asked and the reply, sorted and without duplicates.
    """
    pairs: dict[tuple[str, str], None] = {}
    for rows in iter_rows(run_dir, SCHEMA, ("edited", "response", "asked", "error")):
        for row in rows:
            if row["asked"] and row["error"] is None and row["response"].strip():
                pairs[row["edited"], row["response"]] = None
    return sorted(pairs)


def judgements(
    replies: Sequence[tuple[str, str]],
    labelled: Sequence[Labelled],
    generate: Generate,
    *,
    votes: int,
) -> Judgements:
    """Return the votes on each reply, with one call of `generate` for all replies.

    Parameters
    ----------
    replies : sequence of (str, str)
        The replies to judge, as pairs of question and reply.
    labelled : sequence of Labelled
        Replies that people labelled, to measure the agreement.
    generate : Generate
        Function that generates the replies of the judge.
    votes : int
        Number of votes on each reply.

    Returns
    -------
    Judgements
        The votes, and the agreement with the labels.
    """
    labelled_replies = [(entry.prompt, entry.completion) for entry in labelled]
    prompts = {}
    for pair in (*replies, *labelled_replies):
        prompts[judge_key(*pair)] = judge_prompt(*pair)
    voted = votes_on(generate, prompts, votes, read_vote)
    about: dict[str, Any] = {"votes": votes, "prompt_sha256": prompt_sha256(), "agreement": None}
    if labelled:
        responses = [decided(voted[judge_key(*pair)])[0] for pair in labelled_replies]
        result = agreed(responses, labelled)
        about["agreement"] = {
            **asdict(result),
            "validated": result.validated,
            "sentence": sentence(result),
        }
    return Judgements(voted, about)


def write_judgements(judgements: Judgements, run_dir: Path) -> None:
    """Write the votes of a run into its directory.

    Parameters
    ----------
    judgements : Judgements
        The votes.
    run_dir : Path
        The run directory.
    """
    rows = [{"key": key, "votes": list(votes)} for key, votes in sorted(judgements.votes.items())]
    about = json.dumps(dict(judgements.about), sort_keys=True)
    table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata({b"about": about.encode()}))
    write_table(run_dir / FILE, table)


def read_judgements(run_dir: Path) -> Judgements | None:
    """Return the votes of a run.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    Judgements or None
        None if the run has no votes.

    Raises
    ------
    ShardError
        If the file cannot be read as votes.
    """
    path = run_dir / FILE
    if not path.is_file():
        return None
    try:
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            table = reader.read_all()
        about = json.loads(table.schema.metadata[b"about"])
        votes = {row["key"]: tuple(row["votes"]) for row in table.to_pylist()}
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise ShardError(
            f"{path} cannot be read ({error}). Run the audit's command again, which asks the judge."
        ) from None
    return Judgements(votes, about)


def judged_scorer(scorer: Mapping[str, Any], judgements: Judgements) -> dict[str, Any]:
    """Return the facts about a scorer and about its judge.

    Parameters
    ----------
    scorer : mapping
        The facts about the scorer, from the manifest.
    judgements : Judgements
        The votes, with the agreement with labels.

    Returns
    -------
    dict
        The facts about both. The scorer counts as validated only if the judge agrees with labelled
        replies well enough.
    """
    about = judgements.about
    of_judge = ("judge", "revision", "votes", "prompt_sha256", "agreement")
    result: Callable[[str], Any] = (about.get("agreement") or {}).get
    evidence = result("sentence") or (
        "The judge is not validated for a family of models until labelled replies of that family "
        "confirm it (labels=FILE)."
    )
    judge = f"{about['judge']} ({about['votes']} votes, revision {about['revision']})"
    return {
        **scorer,
        "reference_of": f"XSTest's three classes by a judge model: {judge}",
        "evidence": [evidence, *scorer["evidence"]],
        "validated": bool(result("validated")),
        "judge": {name: about[name] for name in of_judge},
    }
