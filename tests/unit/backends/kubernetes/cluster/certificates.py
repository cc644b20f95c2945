"""Certificates made for a test: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Authority:
    """Signs certificates for servers and clients."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        self._own = self._build(self._name, self._key, authority=True)
        self.pem = self._own.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, name: str) -> Signed:
        """Return a certificate for a name, good for 127.0.0.1 too."""
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = self._build(_name(name), key, authority=False)
        return Signed(certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode())

    def server_context(self, folder: Path) -> ssl.SSLContext:
        """Return what a server needs that asks its clients for a certificate of this authority."""
        signed = self.sign("server")
        path = folder / "server.pem"
        path.write_text(signed.certificate + signed.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(path)
        return context

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = (
            x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
