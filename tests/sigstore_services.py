"""sigstore's services on the loopback interface: a Fulcio that certifies whom a token names, a
Rekor with one log.

Real certificates, proofs and signatures of a root of trust of its own, so that the sigstore library
signs and verifies as it does against the public instance. What they leave out is what the library
does not check: who issued the token."""

import base64
import hashlib
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from servers_here import Quiet, http_here

ISSUER = "https://accounts.google.com"
_ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_SCT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def token(email: str) -> str:
    """A token as an OpenID provider gives it, unsigned: the library forwards it."""
    now = int(time.time())
    claims = {
        "aud": "sigstore",
        "sub": email,
        "email": email,
        "iss": ISSUER,
        "iat": now,
        "exp": now + 300,
    }
    parts = [{"alg": "none", "typ": "JWT"}, claims]
    return (
        ".".join(
            base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts
        )
        + ".eA"
    )


class _Log:
    """A key and the id that it has in a log."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.spki = self.key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        self.id = hashlib.sha256(self.spki).digest()

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(SHA256()))

    def trusted(self, start: str) -> dict[str, Any]:
        key = {
            "rawBytes": b64(self.spki),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": start},
        }
        return {
            "baseUrl": "http://log",
            "hashAlgorithm": "SHA2_256",
            "publicKey": key,
            "logId": {"keyId": b64(self.id)},
        }


class Services:
    """What is asked of them, and the trust configuration that names them."""

    def __init__(self) -> None:
        self.ct, self.rekor = _Log(), _Log()
        self.ca_key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        self.start = (now - timedelta(days=1)).isoformat().replace("+00:00", "Z")
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "test fulcio")])
        uses = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        )
        self.uses = {**uses, "encipher_only": False, "decipher_only": False}
        public = self.ca_key.public_key()
        self.ca = (
            x509.CertificateBuilder(name, name, public, x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=9))
            .add_extension(x509.BasicConstraints(True, 0), True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=False, key_cert_sign=True, crl_sign=True, **self.uses
                ),
                True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
            .sign(self.ca_key, SHA256())
        )

    def certify(self, request: bytes, email: str) -> list[str]:
        """The chain for a request, as PEM: ten minutes, with the certificate log's promise in
        it."""
        public = x509.load_pem_x509_csr(request).public_key()
        now = datetime.now(UTC).replace(microsecond=0)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=False, crl_sign=False, **self.uses
        )
        builder = (
            x509.CertificateBuilder(
                self.ca.subject, x509.Name([]), public, x509.random_serial_number()
            )
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(minutes=9))
            .add_extension(usage, True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca_key.public_key()), False
            )
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(email)]), True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_OID, ISSUER.encode()), False)
        )
        tbs = builder.sign(
            self.ca_key, SHA256()
        ).tbs_certificate_bytes  # of RFC 6962: without the promise itself
        issuer = self.ca_key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        when = int(now.timestamp() * 1000)
        entry = hashlib.sha256(issuer).digest() + len(tbs).to_bytes(3, "big") + tbs
        signed = self.ct.sign(struct.pack("!BBQH", 0, 0, when, 1) + entry + b"\0\0")
        sct = struct.pack("!B32sQHBBH", 0, self.ct.id, when, 0, 4, 3, len(signed)) + signed
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        der = (
            b"\x04"
            + (bytes([len(listed)]) if len(listed) < 128 else bytes([0x81, len(listed)]))
            + listed
        )
        leaf = builder.add_extension(x509.UnrecognizedExtension(_SCT_OID, der), False).sign(
            self.ca_key, SHA256()
        )
        return [certificate.public_bytes(Encoding.PEM).decode() for certificate in (leaf, self.ca)]

    def log(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """An entry as Rekor answers: alone in a tree of one, with its promise and a signed
        checkpoint."""
        body = json.dumps(proposed, sort_keys=True, separators=(",", ":")).encode()
        root, now = hashlib.sha256(b"\0" + body).digest(), int(time.time())
        record = {
            "body": b64(body),
            "integratedTime": now,
            "logID": self.rekor.id.hex(),
            "logIndex": 0,
        }
        promise = self.rekor.sign(
            json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
        )
        note = f"test rekor\n1\n{b64(root)}\n"
        checkpoint = (
            f"{note}\n\u2014 test {b64(self.rekor.id[:4] + self.rekor.sign(note.encode()))}\n"
        )
        proof = {
            "logIndex": 0,
            "treeSize": 1,
            "rootHash": root.hex(),
            "hashes": [],
            "checkpoint": checkpoint,
        }
        return {
            root.hex(): {
                **record,
                "verification": {"inclusionProof": proof, "signedEntryTimestamp": b64(promise)},
            }
        }

    def trust(self, url: str) -> dict[str, Any]:
        """sigstore's ClientTrustConfig."""
        chain = {"certificates": [{"rawBytes": b64(self.ca.public_bytes(Encoding.DER))}]}
        authority = {
            "subject": {"organization": "test", "commonName": "test"},
            "uri": url,
            "certChain": chain,
        }
        service = {
            "url": url,
            "majorApiVersion": 1,
            "validFor": {"start": self.start},
            "operator": "test",
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self.rekor.trusted(self.start)],
                "certificateAuthorities": [{**authority, "validFor": {"start": self.start}}],
                "ctlogs": [self.ct.trusted(self.start)],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                **{f"{kind}Urls": [service] for kind in ("ca", "oidc", "rekorTlog")},
                "rekorTlogConfig": {"selector": "ANY"},
            },
        }


@contextmanager
def serving() -> Iterator[tuple[Services, str]]:
    """The services and their address."""
    services = Services()

    class Answer(Quiet):
        def do_POST(self) -> None:
            request = json.loads(self.request_body())
            if self.path.endswith("/signingCert"):
                claims = self.headers["Authorization"].split()[1].split(".")[1]
                email = json.loads(base64.urlsafe_b64decode(claims + "=="))["email"]
                chain = services.certify(
                    base64.b64decode(request["certificateSigningRequest"]), email
                )
                answer = {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}
            else:
                answer = services.log(request)
            self.reply_json(answer, 201)

    with http_here(Answer) as address:
        yield services, address
