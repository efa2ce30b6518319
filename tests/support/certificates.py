"""A certificate for servers on this machine, which nobody else vouches for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def own_certificate(folder: Path) -> tuple[Path, Path]:
    """The PEM files of a certificate for 127.0.0.1, which is its own authority, and of its key, in a folder; they hold for a day."""
    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "own")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    for extension, critical in (
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    certificate, secret = folder / "authority.pem", folder / "key.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return certificate, secret
