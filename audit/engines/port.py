"""Define the engine port: the methods that the pipeline requires of an engine."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from audit.core.records import Generation, GenerationRequest, TokenLogprobs

# Names of counters begin with this prefix if they count the calls that one version of a server
# (backend) answered.
BACKEND = "backend:"


class Engine(Protocol):
    """Serve requests with one loaded model, or with one set of endpoints."""

    engine_id: str
    precision: str  # precision of the computation, such as "float32"; "" if no weights are loaded

    async def start(self) -> None:
        """Load the model or check the endpoints. Raises EngineLoadError or EndpointAuthError."""

    async def run(
        self, requests: Sequence[GenerationRequest], priority: int = 0
    ) -> list[Generation]:
        """Return the replies in the order of the requests. The method may be called concurrently.

        Parameters
        ----------
        requests : sequence of GenerationRequest
            Requests for replies, or for likelihoods of given texts.
        priority : int
            An engine with a queue serves requests with a smaller priority first.

        Returns
        -------
        list of Generation
            The replies. A reply has an `error` if its request cannot be served, for example because
            the prompt is too long.

        Raises
        ------
        EngineError
            If the engine cannot serve any request.
        EngineDiedError
            If the engine died. Then only a new process can serve the requests.
        """

    def stats(self) -> dict[str, float]:
        """Return the engine's counters as a mapping from names to values.

        The counters begin at 0 when the engine starts. Every engine has the counter `requests`,
        which counts finished requests.
        """

    async def close(self) -> None:
        """Release the resources of the engine."""


def drifts(backends: Mapping[str, int]) -> list[str]:
    """Describe the endpoints whose server version (backend) changed during a run.

    Parameters
    ----------
    backends : mapping
        Maps "ENDPOINT SYSTEM_FINGERPRINT" to its number of calls.

    Returns
    -------
    list of str
        A sentence for each endpoint that answered with several versions.
    """
    by_endpoint: dict[str, list[str]] = {}
    for key, calls in backends.items():
        endpoint, _, version = key.partition(" ")
        by_endpoint.setdefault(endpoint, []).append(f"{version} ({calls:,} calls)")
    sentences = []
    for endpoint, versions in by_endpoint.items():
        if len(versions) > 1:
            sentences.append(
                f"{endpoint} answered from {len(versions)} versions of its backend: {', '.join(versions)}. "
                "Its provider may have changed the model during the run."
            )
    return sentences


def request_sha256(
    request: GenerationRequest,
    prompt_ids: Sequence[int] | None = None,
    options_ids: Sequence[Sequence[int]] = (),
) -> str:
    """Return a hash of a model's input.

    Parameters
    ----------
    request : GenerationRequest
        The request. Its token limit and its seed are not part of the hash.
    prompt_ids : sequence of int or None
        The prompt as the model consumed it; None if an engine does not return token ids.
    options_ids : sequence of sequence of int
        The token ids of the continuations or letters that were scored.

    Returns
    -------
    str
        `tokens:` and a hash of the token ids, or `text:` and a hash of the text.
    """
    if prompt_ids is None:
        given = [
            request.prompt,
            request.continuations,
            request.letters,
            *filter(None, (request.system,)),
        ]
        # A text to score must have another hash than a chat message with the same words.
        text = json.dumps(
            [*given, "given text"] if request.pieces else given, separators=(",", ":")
        )
        return "text:" + hashlib.sha256(text.encode()).hexdigest()
    digest = hashlib.sha256()
    for ids in (prompt_ids, *options_ids):
        # The lengths of the pieces are hashed too. Otherwise two ways to split a text into pieces
        # could have the same hash.
        digest.update(len(ids).to_bytes(8, "little"))
        digest.update(np.asarray(ids, dtype="<u4").tobytes())
    return "tokens:" + digest.hexdigest()


def of_pieces(tokens: TokenLogprobs, n_pieces: int) -> dict[str, Any]:
    """Return the fields of a Generation that describe a scored text.

    Parameters
    ----------
    tokens : TokenLogprobs
        The logprobs of the text's tokens.
    n_pieces : int
        Number of pieces that the text was split into.

    Returns
    -------
    dict
        Maps the name of each field to its value. The fields are the tokens, the total logprob of
        each piece, and the token count of each piece.
    """
    where = np.asarray(tokens.pieces, dtype=np.int64)
    count = np.bincount(where, minlength=n_pieces)
    total = np.bincount(where, weights=tokens.logprobs, minlength=n_pieces)
    option_logprobs = []
    for t, c in zip(total, count, strict=True):
        option_logprobs.append(float(t) if c else None)
    return {
        "option_logprobs": tuple(option_logprobs),
        "option_tokens": tuple(count.tolist()),
        "tokens": tokens,
    }
