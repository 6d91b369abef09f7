"""A certificate authority for an afternoon, and a certificate of its for servers on the loopback."""

import datetime as dt
import ipaddress
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=30)


def write_certificates(folder: Path) -> Path:
    """The server's key and certificate in one PEM file; the authority's certificate lies beside it.

    Those of an earlier start are kept while they last: another process may be using them.
    """
    authority_file, server_file = folder / "authority.pem", folder / "server.pem"
    if server_file.exists() and time.time() - server_file.stat().st_mtime < LIFETIME.total_seconds() / 2:
        return server_file
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("windrow embedded authority")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _builder(_name("localhost"), authority_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority_file.write_bytes(authority.public_bytes(pem))
    server_file.touch(mode=0o600)
    server_file.write_bytes(secret + certificate.public_bytes(pem))
    return server_file


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # A clock that is a little behind on the other side must not refuse the certificate.
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFETIME)
    )
