"""Create and read ed25519 keys, and sign and check statements.

A private key is never printed. It is refused if other users may read its file. The trusted keys are
the public keys in one folder. Their files are named `<signer>.pub` or `<signer>.<anything>.pub`, so
a person may have several keys. A sigstore identity (`<signer>.sigstore.json`, keyless.py) can be
used instead of a key.

The signed form is a DSSE envelope with one signature over an in-toto statement
(https://github.com/secure-systems-lab/dsse; https://github.com/in-toto/attestation, Statement v1).
Only one way to write an envelope as bytes is valid. Therefore a change of any byte is noticed, even
if the byte is whitespace.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Key, Signer, SSlibKey

from audit.core.errors import ConfigError, SignatureError
from audit.core.guarded_files import read_bytes
from audit.governance.keyless import SUFFIX, KeylessSigner, load_identity

TRUSTED_VARIABLE = "AUDIT_TRUSTED_KEYS"
KEY_VARIABLE = (
    # This environment variable holds a private key as PEM text, for machines without a key file.
    "AUDIT_SIGNING_KEY"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_MAX_KEY = 1 << 16
_MAKE_ONE = "Make one: audit review keygen NAME --out FOLDER"


@dataclass(frozen=True)
class Trusted:
    """Hold a trusted public key and the name of its owner."""

    signer: str
    key: Key


Keys = Mapping[str, Trusted]  # maps key ids to trusted keys


def create_key(name: str, folder: Path) -> tuple[Path, Path]:
    """Create a key pair; existing files are never overwritten.

    Parameters
    ----------
    name : str
        The owner's name, with an optional `.suffix` for another key of the same person.
    folder : Path
        The folder for the two files, which is created if needed.

    Returns
    -------
    tuple of Path
        The paths of the private key NAME.key (mode 0600) and of the public key NAME.pub.

    Raises
    ------
    ConfigError
        If the name is invalid, a file exists, or the folder cannot be written.
    """
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise ConfigError(
            f"The key name is {name!r}. Expected letters, digits, - and _. Example: alice, alice.2027"
        )
    signer = CryptoSigner.generate_ed25519()
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public_key.keyval["public"]))
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    paths = folder / f"{name}.key", folder / f"{name}.pub"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data, mode in ((paths[0], signer.private_bytes, 0o600), (paths[1], pem, 0o644)):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
    except FileExistsError as error:
        raise ConfigError(
            f"{error.filename} exists, and keys are never overwritten. Choose another name."
        ) from error
    except OSError as error:
        raise ConfigError(f"No key could be written into {folder} ({error.strerror}).") from error
    return paths


def load_signer(path: Path | None) -> Signer:
    """Read the private key, or the sigstore identity, to sign with.

    Parameters
    ----------
    path : Path or None
        A private key (PEM) or a sigstore identity. None reads AUDIT_SIGNING_KEY from the
        environment.

    Returns
    -------
    Signer
        The key or identity, which can sign statements.

    Raises
    ------
    ConfigError
        If no key is given, if other users than the owner may read the file, or if the key is not an
        ed25519 key.
    """
    if path is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise ConfigError(
                f"The private key is missing. Expected --key FILE, or {KEY_VARIABLE} in the environment. {_MAKE_ONE}"
            )
        return _signer(text.encode(), KEY_VARIABLE)
    if path.name.endswith(SUFFIX):
        return KeylessSigner(load_identity(path))
    try:
        with path.open("rb") as file:
            # The mode is read from the open file, because the file at the path could be replaced in
            # the meantime.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"The mode of {path} is {mode:04o}, so others may have read the key and "
                    "signed with it. "
                    f"Make a new key. If nobody else uses this machine: chmod 600 {path}"
                )
            data = file.read(1 << 16)
    except OSError as error:
        raise ConfigError(
            f"The private key {path} cannot be read ({error.strerror}). {_MAKE_ONE}"
        ) from error
    return _signer(data, str(path))


def _signer(data: bytes, where: str) -> CryptoSigner:
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(
            f"{where} holds no readable private key (PEM, without a password). {_MAKE_ONE}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{where} is not an ed25519 key. {_MAKE_ONE}")
    return CryptoSigner(key)


def load_trusted(folder: Path) -> dict[str, Trusted]:
    """Read the trusted keys of a folder.

    Parameters
    ----------
    folder : Path
        The folder with the files `<signer>.pub` and `<signer>.sigstore.json`.

    Returns
    -------
    dict
        Maps each key id to the key and its owner.

    Raises
    ------
    ConfigError
        If the folder has no key, or if a key has two owners. The error is also raised if a name is
        not ASCII, or if two names differ only in  case.
    """
    paths = sorted([*folder.glob("*.pub"), *folder.glob(f"*{SUFFIX}")])
    if not paths:
        raise ConfigError(
            f"{folder} holds no public key. Expected files such as {folder / 'alice.pub'}. {_MAKE_ONE}"
        )
    trusted: dict[str, Trusted] = {}
    names: dict[str, str] = {}
    for path in paths:
        signer = path.name.split(".")[0]
        if not _NAME.fullmatch(signer):
            raise ConfigError(
                f"{path}: the signer's name is {signer!a}. Expected ASCII letters, digits, - and _."
            )
        if (other := names.setdefault(person(signer), signer)) != signer:
            raise ConfigError(
                f"{path}: the names {other} and {signer} differ only in upper and lower case. Use "
                f"one spelling in {folder}."
            )
        key = load_identity(path) if path.name.endswith(SUFFIX) else _public(path)
        if key.keyid in trusted and trusted[key.keyid].signer != signer:
            raise ConfigError(
                f"{path} is also the key of {trusted[key.keyid].signer}. Expected one owner for each key."
            )
        trusted[key.keyid] = Trusted(signer, key)
    return trusted


def signer_of(signer: Signer, trusted: Keys) -> str:
    """Return the name of the person who owns a private key.

    Parameters
    ----------
    signer : Signer
        A private key or identity.
    trusted : Keys
        The trusted keys, by key id, with the names of their owners.

    Returns
    -------
    str
        The owner's name.

    Raises
    ------
    ConfigError
        If the public key that belongs to the private key is not among the trusted keys.
    """
    known = trusted.get(signer.public_key.keyid)
    if known is None:
        raise ConfigError(
            "This private key has no public key among the trusted keys, so the gate would reject "
            "its signatures."
        )
    return known.signer


def person(name: str) -> str:
    """Normalise a person's name.

    Returns
    -------
    str
        The normalised name. Different spellings of a person's name have the same normalised name.
    """
    return name.strip().casefold()


def _public(path: Path) -> Key:
    try:
        public = serialization.load_pem_public_key(read_bytes(path, _MAX_KEY, follow=True))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} holds no readable public key (PEM): {error}") from error
    if not isinstance(public, Ed25519PublicKey):
        raise ConfigError(f"{path} is not an ed25519 key. {_MAKE_ONE}")
    return SSlibKey.from_crypto(public)


PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
DECISIONS = "decisions"
DECISION = "urn:benchmark-audit:decision:v1"
MAX_BYTES = 1 << 20


def statement(
    predicate_type: str, subjects: Mapping[str, str], predicate: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an in-toto statement.

    Parameters
    ----------
    predicate_type : str
        A URN of this program.
    subjects : mapping
        Maps the name of each subject (signed file) to its hexadecimal sha256.
    predicate : mapping
        The content of the statement.

    Returns
    -------
    dict
        The statement, whose subjects are sorted by name.
    """
    listed = [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)]
    return {
        "_type": STATEMENT_TYPE,
        "subject": listed,
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def subjects_of(stated: Mapping[str, Any]) -> dict[str, str]:
    """Map the name of each subject (signed file) of a statement to its sha256."""
    return {subject["name"]: subject["digest"]["sha256"] for subject in stated["subject"]}


def seal(stated: Mapping[str, Any], signer: Signer) -> bytes:
    """Sign a statement.

    Parameters
    ----------
    stated : mapping
        An in-toto statement, as the function `statement` returns it.
    signer : Signer
        A private key or identity.

    Returns
    -------
    bytes
        The signed file's content. With an ed25519 key, the same statement always gives the same
        bytes.
    """
    envelope = Envelope(_canonical(stated), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return _spelt(envelope)


def unseal(
    data: bytes, trusted: Keys | None, predicate_type: str, file: str
) -> tuple[dict[str, Any], str]:
    """Check a signed file, and return its statement and its signer's name.

    Parameters
    ----------
    data : bytes
        The content of the file.
    trusted : Keys or None
        The keys whose signatures are accepted. None checks no signature; the returned name is then
        the signer's name in the statement.
    predicate_type : str
        The URN that the statement must have.
    what : str
        The file's name, for messages.

    Returns
    -------
    tuple of dict and str
        The statement, and the signer's name.

    Raises
    ------
    SignatureError
        If any byte differs from what a trusted key signed.
    """
    if len(data) > MAX_BYTES:
        raise SignatureError(f"{file} has {len(data):,} bytes; expected at most {MAX_BYTES:,}.")
    try:
        envelope = Envelope.from_dict(json.loads(data))
        ((keyid, signature),) = envelope.signatures.items()
        spelt = _spelt(envelope)
    except Exception as error:
        raise SignatureError(
            f"{file} is not a DSSE envelope with one signature ({type(error).__name__})."
        ) from error
    known = None if trusted is None else trusted.get(keyid)
    if trusted is not None:
        _check_signed(envelope, known, keyid, file)
    # A signature with an ed25519 key covers only the payload. Additional fields of such a signature
    # would not be protected, so they are refused. A sigstore signature has several fields.
    if spelt != data or (
        signature.unrecognized_fields and known and isinstance(known.key, SSlibKey)
    ):
        raise SignatureError(
            f"{file} was changed outside its signed payload. Expected the file as it was written."
        )
    try:
        stated: dict[str, Any] = json.loads(envelope.payload)
        types = (envelope.payload_type, stated.get("_type"), stated.get("predicateType"))
        if not isinstance(stated["predicate"], dict) or not subjects_of(stated):
            raise ValueError("it has no subject")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SignatureError(
            f"{file} does not hold a statement ({type(error).__name__})."
        ) from error
    if (
        types != (PAYLOAD_TYPE, STATEMENT_TYPE, predicate_type)
        or _canonical(stated) != envelope.payload
    ):
        raise SignatureError(f"The statement type of {file} is {types}. Expected {predicate_type}.")
    return stated, known.signer if known else str(stated["predicate"].get("signer", ""))


def _check_signed(envelope: Envelope, known: Trusted | None, keyid: str, file: str) -> None:
    """Raise SignatureError unless a trusted key signed the envelope."""
    if known is None:
        raise SignatureError(
            f"{file} is signed with key {keyid[:16]}, which is not among the trusted keys."
        )
    try:
        envelope.verify([known.key], 1)
    except VerificationError as error:
        raise SignatureError(f"The content of {file} is not what {known.signer} signed.") from error


def sha256(data: bytes) -> str:
    """Return the hexadecimal sha256 of data."""
    return hashlib.sha256(data).hexdigest()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _spelt(envelope: Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), sort_keys=True, indent=1) + "\n").encode()
