"""sigstore as a signer: an identity of an OpenID provider in place of a key, where sigstore's services can be reached.

The signature of the envelope carries the sigstore bundle (certificate, entry in the transparency log), made and checked
by the sigstore library, which is loaded only where a signature asks for it (`pip install 'benchmark-audit[sigstore]'`).
An identity is a file of the trusted folder, `alice.sigstore.json`: {"identity": "alice@example.org", "issuer": "https://..."}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from securesystemslib.exceptions import UnverifiedSignatureError as Unverified
from securesystemslib.signer import Signature, Signer, SigstoreKey, SigstoreSigner

from audit.errors import ConfigError, SignatureError
from audit.guarded_files import read_json

SUFFIX = ".sigstore.json"
TRUST_VARIABLE = "AUDIT_SIGSTORE_TRUST"  # a trust configuration as a file; the public instance's, fetched, without it
_EXAMPLE = '{"identity": "alice@example.org", "issuer": "https://accounts.google.com"}'


class Identity(SigstoreKey):
    """Who signs, and which provider says so: both have to be in the certificate, to the letter."""

    def verify_signature(self, signature: Signature, data: bytes) -> None:
        """Unverified unless it is of this identity over data; SignatureError where nobody can tell."""
        with _services(SignatureError, "The signature cannot be checked"):
            from sigstore.errors import VerificationError
            from sigstore.models import Bundle
            from sigstore.verify import Verifier, policy

            trusted = _trust().trusted_root
            try:
                told = signature.unrecognized_fields["bundle"]
                bundle = Bundle.from_json(json.dumps(told))
                # One spelling alone, and the envelope's own field says what the bundle does.
                if json.loads(bundle.to_json()) != told or set(signature.unrecognized_fields) != {"bundle"}:
                    raise VerificationError("the bundle holds more than sigstore wrote")
                if bundle.signature.hex() != signature.signature:
                    raise VerificationError("the envelope's signature is not the bundle's")
                who = policy.Identity(identity=self.keyval["identity"], issuer=self.keyval["issuer"])
                Verifier(trusted_root=trusted).verify_artifact(data, bundle, who)
            except Exception as error:  # whatever a made-up bundle brings about; the services were asked before
                raise Unverified(f"{self.keyval['identity']}: {error}") from error


class KeylessSigner(Signer):
    """Signs as an identity. The token is asked for at each signature: it lives for minutes."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    @classmethod
    def from_priv_key_uri(cls, priv_key_uri: str, public_key: Any, secrets_handler: Any = None) -> KeylessSigner:
        raise NotImplementedError("Read it from its file: load_identity")

    @property
    def public_key(self) -> Identity:
        return self._identity

    def sign(self, payload: bytes) -> Signature:
        """ConfigError where there is no signature of this identity, whatever the reason: none is made without it."""
        who = self._identity.keyval["identity"]
        with _services(ConfigError, f"Nothing was signed as {who}"):
            from sigstore.sign import SigningContext

            trust = _trust()
            with SigningContext.from_trust_config(trust).signer(_token(trust)) as signer:
                bundle = signer.sign_artifact(payload)
        made = Signature(self._identity.keyid, bundle.signature.hex(), {"bundle": json.loads(bundle.to_json())})
        try:
            self._identity.verify_signature(made, payload)
        except Unverified as error:
            raise ConfigError(f"Nothing was signed: sigstore signed, and not as {who} ({error}).") from error
        return made


def load_identity(path: Path) -> Identity:
    """The identity in a file. ConfigError where it names none, or no issuer: anybody could be alice@example.org."""
    try:
        told = read_json(path, 1 << 16, follow=True)
        if set(told) != {"identity", "issuer"} or not all(isinstance(v, str) and v for v in told.values()):
            raise ValueError("it has other fields")
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} names no sigstore identity ({error}). Expected {_EXAMPLE}") from error
    _, key = SigstoreSigner.import_(told["identity"], told["issuer"])
    return Identity(key.keyid, key.keytype, key.scheme, key.keyval)


def _trust() -> Any:
    from sigstore.models import ClientTrustConfig

    path = os.environ.get(TRUST_VARIABLE)
    if not path:
        return ClientTrustConfig.production()
    try:
        return ClientTrustConfig.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{TRUST_VARIABLE}: {path} is no trust configuration of sigstore ({error}).") from error


def _token(trust: Any) -> Any:
    """Of the CI job; else the browser is asked, where there is somebody."""
    from sigstore.oidc import IdentityToken, Issuer, detect_credential

    if found := detect_credential():
        return IdentityToken(found)
    if not sys.stdin.isatty():
        raise ConfigError("No identity: this is no CI job that gives one, and no terminal to ask for one.")
    return Issuer(trust.signing_config.get_oidc_url()).identity_token()


@contextmanager
def _services(kind: type[ConfigError | SignatureError], what: str) -> Iterator[None]:
    """Whatever keeps sigstore from answering, as an error that says so."""
    try:
        import sigstore  # noqa: F401
    except ImportError:
        raise kind(f"{what}: sigstore is not installed (pip install 'benchmark-audit[sigstore]').") from None
    try:
        yield
    except (ConfigError, SignatureError, Unverified):
        raise
    except Exception as error:  # its clients raise of many kinds
        raise kind(f"{what}: sigstore did not answer, or refused ({type(error).__name__}: {error}).") from error
