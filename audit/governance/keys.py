"""ed25519 keys: made, read, and whom to trust. A private key is never printed, and refused where others may read it.

Whom to trust is a folder of public keys, `<signer>.pub` or `<signer>.<anything>.pub`: a person may have several. An
identity of sigstore (`<signer>.sigstore.json`, keyless.py) stands in place of a key, to trust and to sign with. The one
signed form is a DSSE envelope with one signature over an in-toto statement
(https://github.com/secure-systems-lab/dsse; https://github.com/in-toto/attestation, Statement v1). A file has exactly
one spelling, so that no byte of it can change unseen, whitespace included.
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

from audit.errors import ConfigError, SignatureError
from audit.governance.keyless import SUFFIX, KeylessSigner, load_identity
from audit.guarded_files import read_bytes

TRUSTED_VARIABLE = "AUDIT_TRUSTED_KEYS"
KEY_VARIABLE = "AUDIT_SIGNING_KEY"  # a private key as PEM text, where there is no file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_MAX_KEY = 1 << 16
_MAKE_ONE = "Make one: audit review keygen NAME --out FOLDER"


@dataclass(frozen=True)
class Trusted:
    """A public key and whose it is."""

    signer: str
    key: Key


Keys = Mapping[str, Trusted]  # by key id


def create_key(name: str, folder: Path) -> tuple[Path, Path]:
    """Write folder/NAME.key (mode 0600) and folder/NAME.pub; neither is ever overwritten. NAME may have a `.suffix`."""
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise ConfigError(f"Invalid key name: {name!r}. Expected letters, digits, - and _, such as alice or alice.2027")
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
        raise ConfigError(f"{error.filename} is there, and no key is overwritten. Choose another name.") from error
    except OSError as error:
        raise ConfigError(f"No key could be written into {folder} ({error.strerror}).") from error
    return paths


def load_signer(path: Path | None) -> Signer:
    """The private key in a file, or in the environment variable AUDIT_SIGNING_KEY where no file is named; or who signs
    through sigstore, where the file is such an identity. ConfigError where there is none, where others than its owner
    may read it, or where it is no ed25519 key."""
    if path is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise ConfigError(f"No private key. Expected --key FILE, or {KEY_VARIABLE} in the environment. {_MAKE_ONE}")
        return _signer(text.encode(), KEY_VARIABLE)
    if path.name.endswith(SUFFIX):
        return KeylessSigner(load_identity(path))
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # of the file that is read, not of its name
            if mode & 0o077:
                raise ConfigError(
                    f"{path} may be read by others (mode {mode:04o}), so anybody may have signed with it. Make a new "
                    f"key; and of this one, if nobody else was here: chmod 600 {path}"
                )
            data = file.read(1 << 16)
    except OSError as error:
        raise ConfigError(f"The private key {path} cannot be read ({error.strerror}). {_MAKE_ONE}") from error
    return _signer(data, str(path))


def _signer(data: bytes, where: str) -> CryptoSigner:
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{where} holds no readable private key (PEM, without a password). {_MAKE_ONE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{where} is no ed25519 key. {_MAKE_ONE}")
    return CryptoSigner(key)


def load_trusted(folder: Path) -> dict[str, Trusted]:
    """The trusted keys of a folder, by key id. ConfigError where there is none, one key has two owners, or two names
    cannot be told apart for certain: Alice and alice, or letters that only look alike."""
    paths = sorted([*folder.glob("*.pub"), *folder.glob(f"*{SUFFIX}")])
    if not paths:
        raise ConfigError(f"{folder} holds no public key. Expected files such as {folder / 'alice.pub'}. {_MAKE_ONE}")
    found: dict[str, Trusted] = {}
    names: dict[str, str] = {}
    for path in paths:
        signer = path.name.split(".")[0]
        if not _NAME.fullmatch(signer):
            raise ConfigError(f"{path}: {signer!a} is no name of a signer. Expected ASCII letters, digits, - and _.")
        if (other := names.setdefault(person(signer), signer)) != signer:
            raise ConfigError(f"{path}: {other} and {signer} are one name. Spell a person's name one way in {folder}.")
        key = load_identity(path) if path.name.endswith(SUFFIX) else _public(path)
        if key.keyid in found and found[key.keyid].signer != signer:
            raise ConfigError(f"{path} is also the key of {found[key.keyid].signer}. Expected a key a person.")
        found[key.keyid] = Trusted(signer, key)
    return found


def signer_of(signer: Signer, trusted: Keys) -> str:
    """Whose private key it is. ConfigError where it is nobody's whose word counts."""
    known = trusted.get(signer.public_key.keyid)
    if known is None:
        raise ConfigError("This private key has no public key among the trusted ones: the gate would not believe it.")
    return known.signer


def person(name: str) -> str:
    """A name as people are told apart by."""
    return name.strip().casefold()


def _public(path: Path) -> Key:
    try:
        public = serialization.load_pem_public_key(read_bytes(path, _MAX_KEY, follow=True))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} holds no readable public key (PEM): {error}") from error
    if not isinstance(public, Ed25519PublicKey):
        raise ConfigError(f"{path} is no ed25519 key. {_MAKE_ONE}")
    return SSlibKey.from_crypto(public)


PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
DECISIONS = "decisions"
DECISION = "urn:benchmark-audit:decision:v1"
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


def unseal(data: bytes, trusted: Keys | None, predicate_type: str, what: str) -> tuple[dict[str, Any], str]:
    """Return the statement of a file and its signer's name.

    Parameters
    ----------
    trusted : whose signatures count; with None no signature is checked, and the name is the one that the statement
        gives
    what : the file, for messages

    Raises
    ------
    SignatureError
        unless every byte is as a trusted key signed it
    """
    if len(data) > MAX_BYTES:
        raise SignatureError(f"{what} has {len(data):,} bytes; expected at most {MAX_BYTES:,}.")
    try:
        envelope = Envelope.from_dict(json.loads(data))
        ((keyid, signature),) = envelope.signatures.items()
        spelt = _spelt(envelope)
    except Exception as error:
        raise SignatureError(f"{what} is no DSSE envelope with one signature ({type(error).__name__}).") from error
    known = None if trusted is None else trusted.get(keyid)
    if trusted is not None:
        _check_signed(envelope, known, keyid, what)
    # A signature of sigstore is a bundle of fields; of a plain key nothing but the signature itself is covered by it.
    if spelt != data or (signature.unrecognized_fields and known and isinstance(known.key, SSlibKey)):
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
    return stated, known.signer if known else str(stated["predicate"].get("signer", ""))


def _check_signed(envelope: Envelope, known: Trusted | None, keyid: str, what: str) -> None:
    """Raise SignatureError unless the key is a trusted one and signed the envelope."""
    if known is None:
        raise SignatureError(f"{what} is signed with key {keyid[:16]}, which is not among the trusted keys.")
    try:
        envelope.verify([known.key], 1)
    except VerificationError as error:
        raise SignatureError(f"{what} is not what {known.signer} signed.") from error


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _spelt(envelope: Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), sort_keys=True, indent=1) + "\n").encode()
