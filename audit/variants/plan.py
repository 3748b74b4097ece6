"""Compute the largest number of calls that a build can make, before any call is made."""

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
    """Return the largest possible number of calls of a build, for each role (writer and judge).

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Returns
    -------
    dict of str to PlannedCalls
        Maps each role to its calls. A role without a model is missing. The numbers are upper
        limits: they assume that all attempts are needed, and that the judge votes on every
        candidate.

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
        attempts = 1
        by_id = {question.id: question for question in questions}
        needed = [(question, (1,)) for question in questions]
        judged = [by_id[candidate.question_id] for candidate in propose(needed, 0)]
    else:
        attempts = config.max_attempts
        judged, lengths = [], []
        for question in questions:
            for number in range(1, config.num_variants + 1):
                judged.append(question)
                request = paraphrase_request(prompts, question, policy, number)
                lengths.append(len(request.prompt))
        plans["writer"] = _planned(config, writer, lengths, attempts, MAX_TOKENS)
    if judge is not None:
        shown = [*judged, *questions[: policy.judge_controls]]
        lengths = [len(prompts.templates[JUDGE]) + _judged_length(item) for item in shown]
        calls = attempts * policy.judge_votes
        plans["judge"] = _planned(config, judge, lengths, calls, JUDGE_TOKENS)
    return plans


def _judged_length(item: Item) -> int:
    """Return how many characters an item adds to a judge's prompt.

    The prompt contains the text, a rewording (assumed to be as long as the text), and the options.
    """
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
    """Return a line with calls, tokens, hours and money for each model.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.
    plans : dict of str to PlannedCalls
        The result of `planned_build`.

    Returns
    -------
    list of str
        The lines.

    Raises
    ------
    ConfigError
        If the build may cost more than cost.max.
    """
    money = sum(plan.cost.money or 0.0 for plan in plans.values())
    if config.cost.max is not None and money > config.cost.max:
        enough = float(f"{money * 1.1:.2g}")
        raise ConfigError(
            f"cost of the build is at most {money:,.2f} {config.cost.currency}. Expected at most "
            f"cost.max={config.cost.max:g}. Example: cost.max={enough:g}, or max_attempts=1"
        )
    return [
        f"{role} {plan.model}, with every attempt: {in_one_line([(plan, 1.0)])}"
        for role, plan in plans.items()
    ]
