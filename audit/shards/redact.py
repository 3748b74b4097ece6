"""Remove secrets from whatever is written to a file.

Values under secret-like keys, credentials in URLs, well-known key forms, and the values of
environment variables with secret-like names are blanked. The *name* of an environment variable may
stay.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

REMOVED = "<removed>"

# transformers uses these names for parts of a prompt. They determine rows, so the manifest and the
# fingerprint keep their values. The exception is for keys only, not for environment variables.
_NO_SECRET_KEY = re.compile(
    r"(bos|eos|pad|unk|sep|cls|mask|stop)_token|additional_special_tokens", re.I
)
_SECRET_KEY = re.compile(
    r"api_?key|access_?key|private_?key|token(?!iz|s?_field)|secret|passw|credential|authorization|bearer",
    re.I,
)
# Names such as OPENAI_API_KEY and HF_TOKEN are capitals with an underscore. Some real keys are
# capitals too, but without one.
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_KEY_FORMS = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_*-]{12,}|\b(?:(?:hf|gh[pousr]|github_pat)_|glpat[_-]|xox[abp]-)[A-Za-z0-9_-]{12,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}|\b(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
# The pattern looks ahead and never backtracks. Otherwise a message with a thousand "?key" would
# take seconds.
_URL_QUERY = re.compile(
    r"([?&](?=[^=&?\s]*(?:key|token|secret|password|signature))[^=&?\s]*+=)[^&\s]+", re.I
)
# api_key_env holds the name of a variable, whatever its spelling.
_NAME_HOLDER = re.compile(r"_env$", re.I)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"_(FILE|PATH|DIR|URL|URI|NAME)$", re.I)
_MIN_SECRET_CHARS = (
    8  # shorter values ("false", "1") are settings whose name merely looks like a secret's
)


def redact(value: Any, environ: Mapping[str, str] | None = None) -> Any:
    """Return a copy of a JSON-like value without secrets.

    Parameters
    ----------
    value : object
        JSON-like value.
    environ : mapping or None
        Environment whose secrets are removed; None takes this process's.

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
    """Return a text without known secrets, and without what looks like a secret.

    Parameters
    ----------
    text : str
        The text.
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
