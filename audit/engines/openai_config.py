"""Configure the `openai` engine.

The configuration never contains a key: it names the environment variable that holds the key.
`check_endpoints` refuses settings that would put a secret into the run's manifest, and its messages
never repeat the value.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import ConfigError, check_known
from audit.core.records import Reading

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_PREFIXES = ("sk_", "hf_", "gsk_", "xai_", "nvapi_", "AIza")
_SECRET_FIELD = re.compile(r"api[-_]?key|authorization|password|secret|bearer", re.IGNORECASE)
_RESERVED_BODY = ("messages", "model", "n", "stream", "seed", "temperature", "top_p", "max_tokens")
_MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
INFER = "/infer"
_EXAMPLE_URL = "http://127.0.0.1:8000/v1"


@dataclass
class EndpointConfig:
    """Configure one endpoint.

    The endpoint is OpenAI-compatible, or it answers the JSON object {prompt, task_id} with
    {response}.

    Parameters
    ----------
    url : str
        The base URL. If it ends in /infer, the endpoint accepts no temperature, seed or token
        limit, and returns no likelihood.
    model : str
        The model's id at the endpoint.
    weight : float
        The endpoint's relative share of the requests. Only endpoints that can take another request
        share the requests.
    concurrency : int
        The largest number of requests that may wait for their replies at the same time.
    api_key_env : str
        The NAME of the environment variable with the key. For a server without keys the variable
        need not be set.
    timeout_s : float
        Time limit of one attempt in seconds, including the time to connect.
    max_tokens_field : str
        The name of the field that limits the tokens of a reply: "max_completion_tokens" for
        endpoints that refuse max_tokens.
    send_temperature : bool
        Whether requests state temperature and top_p. False for endpoints that refuse these fields.
    top_logprobs : int
        The number of top log-probabilities to request, up to 20. Some endpoints allow fewer.
    reply_model : str
        The model's name in replies, if it differs from `model`.
    rpm, tpm : float or None
        The largest numbers of requests and of tokens per minute. None uses the limits that replies
        state in `x-ratelimit-limit-*`. Without such limits, the rate is not limited.
    """

    url: str = _EXAMPLE_URL
    model: str = ""
    weight: float = 1.0
    concurrency: int = 16
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 120.0
    max_tokens_field: str = "max_tokens"
    send_temperature: bool = True
    top_logprobs: int = 20
    reply_model: str = ""
    rpm: float | None = None
    tpm: float | None = None

    @property
    def infers(self) -> bool:
        """Return whether the endpoint's URL ends in /infer."""
        return urlsplit(self.url).path.rstrip("/").endswith(INFER)


@dataclass
class RetryConfig:
    """Configure how failures are retried.

    The delay before retry k (1, 2, ...) is

        min(max_delay_s, base_delay_s * 2**(k-1)) * (1 - u),

    where u is a random number between 0 and `jitter` (0-1). `max_attempts` limits the attempts of a
    request that fails while other requests are answered. The run stops if no endpoint has answered
    for `outage_s` seconds.
    """

    max_attempts: int = 6
    base_delay_s: float = 0.5
    max_delay_s: float = 30.0
    jitter: float = 0.5
    outage_s: float = 180.0


@dataclass
class CircuitConfig:
    """Configure when an endpoint is taken out of service.

    After `failures` failures in a row, the endpoint receives only one test request every
    `cooldown_s` seconds.
    """

    failures: int = 5
    cooldown_s: float = 15.0


def check_endpoints(
    endpoints: Sequence[EndpointConfig],
    retry: RetryConfig,
    circuit: CircuitConfig,
    extra_body: Mapping[str, Any],
    reading: Reading,
) -> None:
    """Check the settings of the endpoints.

    Parameters
    ----------
    endpoints : sequence of EndpointConfig
        The endpoints of one model.
    retry : RetryConfig
        The settings of retries after failures.
    circuit : CircuitConfig
        The number of failures after which an endpoint is taken out of service.
    extra_body : mapping
        Fields that are merged into every request.
    reading : Reading
        How the model's answers are read, such as from a letter in the reply.

    Raises
    ------
    ConfigError
        If a setting is invalid, or if it would put a secret into a file. The error is also raised
        if the endpoints cannot return what `reading` needs, such as log-probabilities.
    """
    if not endpoints:
        raise ConfigError(
            f"The openai engine has no endpoint. Expected at least one. {_ENDPOINT_EXAMPLE}"
        )
    for endpoint in endpoints:
        _check_endpoint(endpoint)
    check_number("retry.max_attempts", retry.max_attempts, at_least=1, whole=True)
    check_number("retry.base_delay_s", retry.base_delay_s)
    check_number("retry.max_delay_s", retry.max_delay_s, at_least=retry.base_delay_s)
    check_number("retry.jitter", retry.jitter, at_most=1)
    check_number("retry.outage_s", retry.outage_s)
    check_number("circuit.failures", circuit.failures, at_least=1, whole=True)
    check_number("circuit.cooldown_s", circuit.cooldown_s)
    _check_extra_body(extra_body)
    if reading == Reading.OPTION_TEXT:
        raise ConfigError(
            "reading=option_text needs engine vllm: a chat completions endpoint returns no likelihood of a text. Use "
            "reading=letter, or reading=letter_logprob if the endpoint returns top_logprobs."
        )
    if reading == Reading.LETTER_LOGPROB and any(endpoint.infers for endpoint in endpoints):
        raise ConfigError(
            f"reading={reading} needs likelihoods, and an endpoint at .../infer returns no likelihood."
        )


def safe_url(url: str) -> str:
    """Return a URL without userinfo, query and fragment, which may contain secrets.

    The returned URL may be shown and logged.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}{port}{parts.path}"
    except ValueError:
        return "(an unreadable URL)"


def endpoint_id(endpoint: EndpointConfig) -> str:
    """Return the endpoint's id, `host:port#model`.

    The id is stored as engine_id in every row that the endpoint answered.
    """
    parts = urlsplit(endpoint.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}#{endpoint.model}"


_ENDPOINT_EXAMPLE = (
    f"Example: endpoints: [{{url: {_EXAMPLE_URL}, model: my-model, api_key_env: MY_API_KEY}}]."
)


def _check_endpoint(endpoint: EndpointConfig) -> None:
    shown = safe_url(endpoint.url)
    try:
        parts = urlsplit(endpoint.url)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
        secret = bool("@" in parts.netloc or parts.query or parts.fragment)
    except ValueError:
        usable = secret = False
    if secret:
        raise ConfigError(
            f"The url of endpoint {shown} has credentials or a query, which would be stored in the run's manifest. "
            f"Give the plain url and put the key into an environment variable. {_ENDPOINT_EXAMPLE}"
        )
    if not usable:
        raise ConfigError(
            f"The endpoint's url is {shown!r}. Expected http(s)://host[:port]/v1. {_ENDPOINT_EXAMPLE}"
        )
    if (
        base := shown.rstrip("/").removesuffix("/completions").removesuffix("/chat")
    ) != shown.rstrip("/"):
        raise ConfigError(
            f"The endpoint's url {shown!r} is the address of a single call. Expected the base URL: "
            f"{base}"
        )
    name = str(endpoint.api_key_env)
    if not _ENV_NAME.fullmatch(name) or name.startswith(_KEY_PREFIXES) or len(name) > 64:
        raise ConfigError(
            f"api_key_env of endpoint {shown} is not the NAME of an environment variable (not shown: it may be a key). "
            "Example: api_key_env: OPENAI_API_KEY. If you wrote a key there, revoke it."
        )
    if not endpoint.model:
        raise ConfigError(
            f"Endpoint {shown} names no model. Expected an id that the endpoint's /models lists. "
            f"{_ENDPOINT_EXAMPLE}"
        )
    check_number(f"weight of endpoint {shown}", endpoint.weight, positive=True)
    check_number(f"concurrency of endpoint {shown}", endpoint.concurrency, at_least=1, whole=True)
    check_number(f"timeout_s of endpoint {shown}", endpoint.timeout_s, positive=True)
    check_number(
        f"top_logprobs of endpoint {shown}",
        endpoint.top_logprobs,
        at_least=1,
        at_most=20,
        whole=True,
    )
    for limit in ("rpm", "tpm"):
        if (value := getattr(endpoint, limit)) is not None:
            check_number(f"{limit} of endpoint {shown}", value, positive=True)
    check_known(
        f"max_tokens_field of endpoint {shown}", endpoint.max_tokens_field, _MAX_TOKENS_FIELDS
    )


def _check_extra_body(extra: Mapping[str, Any]) -> None:
    for name in extra:
        if name in _RESERVED_BODY:
            raise ConfigError(
                f"extra_body may not set {name!r}, which the protocol sets. "
                "Example: extra_body: {chat_template_kwargs: {enable_thinking: false}}."
            )
        if _SECRET_FIELD.search(str(name)):
            raise ConfigError(
                f"extra_body may not hold {name!r}, since the manifest stores it. Name a variable in api_key_env."
            )


def check_number(
    name: str,
    value: float,
    *,
    at_least: float = 0,
    at_most: float = math.inf,
    positive: bool = False,
    whole: bool = False,
) -> None:
    """Raise ConfigError unless a number in the settings is finite and in a range.

    Parameters
    ----------
    name : str
        The setting's name, for the message.
    value : float
        The setting's value.
    at_least, at_most : float
        The range, inclusive.
    positive : bool
        Refuse 0.
    whole : bool
        Refuse fractions.
    """
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not (number and at_least <= value <= at_most and value < math.inf) or (
        positive and value <= 0
    ):
        kind = "a whole number" if whole else "a number"
        low = "> 0" if positive else f">= {at_least:g}"
        high = f" and <= {at_most:g}" if at_most < math.inf else ""
        raise ConfigError(f"{name} is {value!r}. Expected {kind} {low}{high}.")
