"""Sign with sigstore. An identity of an OpenID provider is used instead of a key.

Signing and checking need sigstore's services. The envelope's signature contains the sigstore
bundle, which is the certificate and the entry in the transparency log. The sigstore library makes
and checks the bundle. This library is imported only if it is needed (`pip install
'benchmark-audit[sigstore]'`). An identity is a file of the trusted folder, such as
`alice.sigstore.json`: {"identity": "alice@example.org", "issuer": "https://..."}.
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

from audit.core.errors import ConfigError, SignatureError
from audit.core.guarded_files import read_json

SUFFIX = ".sigstore.json"
# This environment variable names a file with sigstore's trust configuration. If the variable is not
# set, the configuration of the public sigstore instance is downloaded.
TRUST_VARIABLE = "AUDIT_SIGSTORE_TRUST"
_EXAMPLE = '{"identity": "alice@example.org", "issuer": "https://accounts.google.com"}'


class Identity(SigstoreKey):
    """Hold a signer's identity, and the OpenID provider (issuer) that confirms it.

    A signature is valid only if its certificate names exactly this identity and this provider.
    """

    def verify_signature(self, signature: Signature, data: bytes) -> None:
        """Check that this identity signed the data.

        Parameters
        ----------
        signature : Signature
            A signature with a sigstore bundle.
        data : bytes
            The signed bytes.

        Raises
        ------
        UnverifiedSignatureError
            If this identity did not sign these data.
        SignatureError
            If sigstore's services do not answer.
        """
        with _services(SignatureError, "The signature cannot be checked"):
            from sigstore.errors import VerificationError
            from sigstore.models import Bundle
            from sigstore.verify import Verifier, policy

            trusted = _trust().trusted_root
            try:
                fields = signature.unrecognized_fields["bundle"]
                bundle = Bundle.from_json(json.dumps(fields))
                # Only one way to write the bundle as JSON is accepted. The signature in the
                # envelope must equal the signature in the bundle.
                if json.loads(bundle.to_json()) != fields or set(signature.unrecognized_fields) != {
                    "bundle"
                }:
                    raise VerificationError(
                        "the bundle contains fields that sigstore did not write"
                    )
                if bundle.signature.hex() != signature.signature:
                    raise VerificationError(
                        "the envelope's signature differs from the bundle's signature"
                    )
                who = policy.Identity(
                    identity=self.keyval["identity"], issuer=self.keyval["issuer"]
                )
                Verifier(trusted_root=trusted).verify_artifact(data, bundle, who)
            # The signing services could be reached, so the cause is an invalid bundle. A forged
            # bundle can raise any exception.
            except Exception as error:
                raise Unverified(f"{self.keyval['identity']}: {error}") from error


class KeylessSigner(Signer):
    """Sign as an identity.

    For each signature a new token is requested from the provider. A token is valid for minutes.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Any, secrets_handler: Any = None
    ) -> KeylessSigner:
        """Raise NotImplementedError, since an identity has no URI: `load_identity` reads it from a
        file.
        """
        raise NotImplementedError("Read it from its file: load_identity")

    @property
    def public_key(self) -> Identity:
        """Return the identity. Signatures are checked against this identity."""
        return self._identity

    def sign(self, payload: bytes) -> Signature:
        """Sign a payload, and check the signature before it is returned.

        Parameters
        ----------
        payload : bytes
            The bytes to sign.

        Returns
        -------
        Signature
            A signature that contains the sigstore bundle.

        Raises
        ------
        ConfigError
            If this identity could not sign, for any reason.
        """
        who = self._identity.keyval["identity"]
        with _services(ConfigError, f"Nothing was signed as {who}"):
            from sigstore.sign import SigningContext

            trust = _trust()
            with SigningContext.from_trust_config(trust).signer(_token(trust)) as signer:
                bundle = signer.sign_artifact(payload)
        signature = Signature(
            self._identity.keyid, bundle.signature.hex(), {"bundle": json.loads(bundle.to_json())}
        )
        try:
            self._identity.verify_signature(signature, payload)
        except Unverified as error:
            raise ConfigError(
                f"Nothing was signed: sigstore made a signature, but not as {who} ({error})."
            ) from error
        return signature


def load_identity(path: Path) -> Identity:
    """Read an identity from a file.

    Parameters
    ----------
    path : Path
        A JSON file with exactly the fields identity and issuer.

    Returns
    -------
    Identity
        The identity, which is used like a public key.

    Raises
    ------
    ConfigError
        If a field is missing or empty. The issuer is required, since otherwise any provider could
        confirm the identity.
    """
    try:
        fields = read_json(path, 1 << 16, follow=True)
        if not isinstance(fields, dict) or set(fields) != {"identity", "issuer"}:
            raise ValueError("it has other fields")
        if not all(isinstance(value, str) and value for value in fields.values()):
            raise ValueError("a field is empty or no text")
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{path} names no sigstore identity ({error}). Expected {_EXAMPLE}"
        ) from error
    _, key = SigstoreSigner.import_(fields["identity"], fields["issuer"])
    return Identity(key.keyid, key.keytype, key.scheme, key.keyval)


def _trust() -> Any:
    from sigstore.models import ClientTrustConfig

    path = os.environ.get(TRUST_VARIABLE)
    if not path:
        return ClientTrustConfig.production()
    try:
        return ClientTrustConfig.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{TRUST_VARIABLE}: {path} is not a trust configuration of sigstore ({error})."
        ) from error


def _token(trust: Any) -> Any:
    """Return an identity token.

    The token comes from the CI job. Outside a CI job with a terminal, the user logs in with a
    browser.
    """
    from sigstore.oidc import IdentityToken, Issuer, detect_credential

    if credential := detect_credential():
        return IdentityToken(credential)
    if not sys.stdin.isatty():
        raise ConfigError(
            "The identity token is missing. Expected a CI job that provides one, or a terminal to log in from."
        )
    return Issuer(trust.signing_config.get_oidc_url()).identity_token()


@contextmanager
def _services(kind: type[ConfigError | SignatureError], problem: str) -> Iterator[None]:
    """Convert every exception of sigstore to an error of the given class.

    The error's message begins with `problem`.
    """
    try:
        import sigstore  # noqa: F401
    except ImportError:
        raise kind(
            f"{problem}: sigstore is not installed (pip install 'benchmark-audit[sigstore]')."
        ) from None
    try:
        yield
    except (ConfigError, SignatureError, Unverified):
        raise
    except Exception as error:  # sigstore's clients raise many kinds of exceptions
        raise kind(
            f"{problem}: sigstore did not answer, or refused ({type(error).__name__}: {error})."
        ) from error
