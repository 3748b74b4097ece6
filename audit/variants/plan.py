"""Count what a build would ask of its models, at most, before anything is asked."""

from collections.abc import Sequence

from audit.benchmarks.load import open_benchmark
from audit.config.plan_cost import CHARS_PER_TOKEN, PlannedCalls, Tokens, in_one_line, planned_cost
from audit.core.errors import ConfigError
from audit.core.prompting import lettered
from audit.core.records import Item
from audit.engines.config import ModelConfig
from audit.variants.config import VariantsConfig, policy_of, writer_and_judge
from audit.variants.record import JUDGE_TOKENS
from audit.variants.run import shipped_prompts, sources_of, strategy_of
from audit.variants.strategies import JUDGE, MAX_TOKENS, paraphrase_request


def planned_build(config: VariantsConfig) -> dict[str, PlannedCalls]:
    """Return the calls of a build by role.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Returns
    -------
    dict of str to PlannedCalls
        Calls of the writer and of the judge; without a model, no entry. Every attempt is counted, with
        every candidate before the judge: the gates before it only lower the number.

    Raises
    ------
    ConfigError, BenchmarkError
        If the benchmark or a file of variants cannot be read.
    """
    writer, judge = writer_and_judge(config)
    if writer is None and judge is None:
        return {}
    policy, prompts = policy_of(config), shipped_prompts()
    questions = list(open_benchmark(config.benchmark, seed=config.seed).iter_questions())
    plans: dict[str, PlannedCalls] = {}
    if writer is None:
        propose, _ = strategy_of(config, policy, questions, sources_of(config), None)
        by_id = {question.id: question for question in questions}
        judged, attempts = (
            [by_id[one.question_id] for one in propose([(q, (1,)) for q in questions], 0)],
            1,
        )
    else:
        numbers, attempts = range(1, config.num_variants + 1), config.max_attempts
        judged = [question for question in questions for _ in numbers]
        asked = [
            paraphrase_request(prompts, q, policy, number) for q in questions for number in numbers
        ]
        lengths = [len(one.prompt) for one in asked]
        plans["writer"] = _planned(config, writer, lengths, attempts, MAX_TOKENS)
    if judge is not None:
        shown = [*judged, *questions[: policy.judge_controls]]
        lengths = [len(prompts.templates[JUDGE]) + _judged_length(one) for one in shown]
        plans["judge"] = _planned(
            config, judge, lengths, attempts * policy.judge_votes, JUDGE_TOKENS
        )
    return plans


def _judged_length(item: Item) -> int:
    """Return the characters that a judge is shown of an item: its text, a rewording as long, its
    options."""
    return 2 * len(item.text) + len("\n".join(lettered(item.options)))


def _planned(
    config: VariantsConfig,
    model: ModelConfig,
    lengths: Sequence[int],
    repeats: int,
    max_tokens: int,
) -> PlannedCalls:
    calls = len(lengths) * repeats
    tokens = Tokens(int(sum(lengths) * repeats / CHARS_PER_TOKEN), calls * max_tokens)
    cost = planned_cost(config.cost, {model.name: tokens}, {model.name: model})
    return PlannedCalls(model.name, config.benchmark.name, calls, tokens, cost)


def price_lines(config: VariantsConfig, plans: dict[str, PlannedCalls]) -> list[str]:
    """Return a line for each model: calls, tokens, hours, money.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.
    plans : dict of str to PlannedCalls
        Calls of `planned_build`.

    Returns
    -------
    list of str
        Lines.

    Raises
    ------
    ConfigError
        If the build may cost more than cost.max.
    """
    money = sum(plan.cost.money or 0.0 for plan in plans.values())
    if config.cost.max is not None and money > config.cost.max:
        raise ConfigError(
            f"cost of the build is at most {money:,.2f} {config.cost.currency}. Expected at most "
            f"cost.max={config.cost.max:g}. Example: cost.max={float(f'{money * 1.1:.2g}'):g}, or max_attempts=1"
        )
    return [
        f"{role} {plan.model}, with every attempt: {in_one_line([(plan, 1.0)])}"
        for role, plan in plans.items()
    ]
