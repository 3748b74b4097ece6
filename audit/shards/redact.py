"""Remove secrets from everything that is written to a file.

The following are replaced: values under keys with secret-like names, credentials in URLs, keys of
well-known forms, and values of environment variables with secret-like names. The *name* of an
environment variable is kept.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

REMOVED = "<removed>"

# In transformers, these keys hold parts of a prompt, which determine rows. The manifest and the
# fingerprint therefore keep the values. The exception applies to keys only, not to environment
# variables.
_NO_SECRET_KEY = re.compile(
    r"(bos|eos|pad|unk|sep|cls|mask|stop)_token|additional_special_tokens", re.I
)
_SECRET_KEY = re.compile(
    r"api_?key|access_?key|private_?key|token(?!iz|s?_field)|secret|passw|credential|authorization|bearer",
    re.I,
)
# This pattern matches the names of variables, such as OPENAI_API_KEY and HF_TOKEN, which contain an
# underscore. Some secret keys also consist of capitals, but contain no underscore.
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_KEY_FORMS = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_*-]{12,}|\b(?:(?:hf|gh[pousr]|github_pat)_|glpat[_-]|xox[abp]-)[A-Za-z0-9_-]{12,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}|\b(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
# The pattern uses lookahead and no backtracking. With backtracking, a message that contains "?key"
# a thousand times would take seconds.
_URL_QUERY = re.compile(
    r"([?&](?=[^=&?\s]*(?:key|token|secret|password|signature))[^=&?\s]*+=)[^&\s]+", re.I
)
# The value of a key such as api_key_env is the name of a variable, and not a secret.
_NAME_HOLDER = re.compile(r"_env$", re.I)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"_(FILE|PATH|DIR|URL|URI|NAME)$", re.I)
# A shorter value ("false", "1") is a setting, even if its key looks like that of a secret.
_MIN_SECRET_CHARS = 8


def redact(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """Return a copy of a JSON-like value without secrets.

    Parameters
    ----------
    value : object
        A JSON-like value.
    environ : mapping or None
        Environment whose secrets are removed; None uses the environment of this process.

    Returns
    -------
    object
        The copy, with `<removed>` in place of each secret.

    Examples
    --------
    >>> redact({"api_key": "sk-abc", "api_key_env": "OPENAI_API_KEY", "max_tokens": 256}, environ={})
    {'api_key': '<removed>', 'api_key_env': 'OPENAI_API_KEY', 'max_tokens': 256}
    """
    secrets = set()
    for name, secret in (os.environ if environ is None else environ).items():
        if (
            _SECRET_KEY.search(name)
            and not _PLACE.search(name)
            and len(secret) >= _MIN_SECRET_CHARS
        ):
            secrets.add(secret)
    return _redact(value, tuple(sorted(secrets, key=len, reverse=True)), under_secret_key=False)


def _redact(value: Any, known: tuple[str, ...], under_secret_key: bool) -> Any:
    if isinstance(value, Mapping):
        copy = {}
        for key, item in value.items():
            secret = under_secret_key or _holds_secret(str(key), item)
            copy[without_secrets(str(key), known)] = _redact(item, known, secret)
        return copy
    if isinstance(value, (list, tuple)):
        return [_redact(item, known, under_secret_key) for item in value]
    if not isinstance(value, str):
        return value
    if under_secret_key and value and not (_ENV_NAME.fullmatch(value) and value not in known):
        return REMOVED
    return without_secrets(value, known)


def _holds_secret(key: str, value: Any) -> bool:
    names_variable = (
        _NAME_HOLDER.search(key) and isinstance(value, str) and _VARIABLE.fullmatch(value)
    )
    return (
        bool(_SECRET_KEY.search(key)) and not names_variable and not _NO_SECRET_KEY.fullmatch(key)
    )


def without_secrets(text: str, known: Sequence[str]) -> str:
    """Return a text in which known secrets, and parts that look like secrets, are replaced.

    Parameters
    ----------
    text : str
        Text that may contain secrets.
    known : sequence of str
        Secrets, longest first.

    Returns
    -------
    str
        The text with `<removed>` in place of each secret.
    """
    for secret in known:
        text = text.replace(secret, REMOVED)
    text = _URL_LOGIN.sub(f"{REMOVED}@", text)
    text = _URL_QUERY.sub(rf"\g<1>{REMOVED}", text)
    return _KEY_FORMS.sub(REMOVED, text)
