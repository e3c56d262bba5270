"""Keys and certificates that live for a test."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Keys:
    """A private key with its certificate, and the files of both."""

    certificate: Path
    secret: Path
    signed: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_keys(
    place: Path,
    name: str,
    *,
    common: str = "localhost",
    by: Keys | None = None,
    authority: bool = False,
) -> Keys:
    """Make a key of a host or user (``common``), certified by another key or by itself; files go to ``place/name.*``.

    ``authority``: may certify others, as a key certified by itself may.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(
            subject if by is None else by.signed.subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
        )
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority or by is None, path_length=None), critical=True)
        .sign(key if by is None else by.key, hashes.SHA256())
    )
    certificate, secret = place / f"{name}.pem", place / f"{name}.key"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    secret.chmod(0o600)
    return Keys(certificate, secret, signed, key)


def server_context(place: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a key of localhost certified by itself; return what a server needs, and the certificate's file."""
    keys = make_keys(place, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.secret)
    return context, keys.certificate
