"""Certificates made on the spot."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Made:
    """A self-signed certificate with its key, in one file; good for `days` more."""

    def __init__(self, path: Path, *, days: float = 60, name: str = "vendor.example") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(until - datetime.timedelta(days=90))
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.pem = made.public_bytes(serialization.Encoding.PEM)
        self.key = key.private_bytes(serialization.Encoding.PEM, *plain)
        self.path = path
        path.write_bytes(self.pem + self.key)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path)
        return context

    def trusted(self, monkeypatch) -> None:
        """From now on probes trust this one, and nobody else."""

        def context(*protocols: str) -> ssl.SSLContext:
            made = ssl.create_default_context()
            made.load_verify_locations(cadata=self.pem.decode())
            if protocols:
                made.set_alpn_protocols(list(protocols))
            return made

        monkeypatch.setattr("workers.egress.tls_context", context)
        monkeypatch.setattr("workers.egress.authorities", lambda: str(self.path))
