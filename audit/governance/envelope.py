"""The one signed form: a DSSE envelope (securesystemslib) with one signature over an in-toto statement.

https://github.com/secure-systems-lab/dsse; https://github.com/in-toto/attestation, Statement v1. A file has exactly one
spelling, so that no byte of it can change unseen, whitespace included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import Signer, SSlibKey

from audit.errors import SignatureError
from audit.governance.keys import Trusted

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
DECISIONS, DECISION = (
    "decisions",
    "urn:benchmark-audit:decision:v1",
)
MAX_BYTES = 1 << 20


def statement(predicate_type: str, subjects: Mapping[str, str], predicate: Mapping[str, Any]) -> dict[str, Any]:
    """An in-toto statement. subjects: name -> sha256 (hex)."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def subjects_of(stated: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["digest"]["sha256"] for one in stated["subject"]}


def seal(stated: Mapping[str, Any], signer: Signer) -> bytes:
    """The signed statement as the bytes of a file. The same statement and key give the same bytes."""
    envelope = Envelope(_canonical(stated), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return _spelt(envelope)


def unseal(data: bytes, trusted: Mapping[str, Trusted], predicate_type: str, what: str) -> tuple[dict[str, Any], str]:
    """The statement of a file and its signer's name. SignatureError unless every byte is as a trusted key signed it.

    what: the file, for messages.
    """
    if len(data) > MAX_BYTES:
        raise SignatureError(f"{what} has {len(data):,} bytes; expected at most {MAX_BYTES:,}.")
    try:
        envelope = Envelope.from_dict(json.loads(data))
        ((keyid, signature),) = envelope.signatures.items()
        spelt = _spelt(envelope)
    except Exception as error:
        raise SignatureError(f"{what} is no DSSE envelope with one signature ({type(error).__name__}).") from error
    if keyid not in trusted:
        raise SignatureError(f"{what} is signed with key {keyid[:16]}, which is not among the trusted keys.")
    try:
        envelope.verify([trusted[keyid].key], 1)
    except VerificationError as error:
        raise SignatureError(
            f"{what} is not what {trusted[keyid].signer} signed: the signature does not fit."
        ) from error
    # A signature of sigstore is a bundle of fields; of a plain key nothing but the signature itself is covered by it.
    if spelt != data or (signature.unrecognized_fields and isinstance(trusted[keyid].key, SSlibKey)):
        raise SignatureError(f"{what} was changed around what is signed. Expected the file as it was written.")
    try:
        stated: dict[str, Any] = json.loads(envelope.payload)
        found = (envelope.payload_type, stated.get("_type"), stated.get("predicateType"))
        if not isinstance(stated["predicate"], dict) or not subjects_of(stated):
            raise ValueError("it says nothing")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SignatureError(f"{what} holds no statement ({type(error).__name__}).") from error
    if found != (PAYLOAD_TYPE, STATEMENT_TYPE, predicate_type) or _canonical(stated) != envelope.payload:
        raise SignatureError(f"{what} is a statement of another kind: {found}. Expected {predicate_type}.")
    return stated, trusted[keyid].signer


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _spelt(envelope: Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), sort_keys=True, indent=1) + "\n").encode()
