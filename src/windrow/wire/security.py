"""Who we are to a broker, and who it is to us: TLS and SASL, from the settings that librdkafka has for them."""

import base64
import hashlib
import hmac
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from windrow.errors import EnvironmentUnfit, Interrupted

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *HASHES)
PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_YES: Final = ("true", "1", "t")
_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_PROBE: Final = "probe"
"""For `ssl.ca.location`: wherever this system has what it trusts."""

Exchange = Callable[[bytes], bytes]
"""Sends a broker a step of the authentication, and returns what it says to it."""


@dataclass(frozen=True, slots=True)
class Security:
    """How connections are made safe; secrets are never shown."""

    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Self:
        tls = _tls(config) if _protocol(config).endswith("ssl") else None
        if not asks_who_we_are(config):
            return cls(tls)
        return cls(tls, mechanism_of(config), config.get("sasl.username", ""), config.get("sasl.password", ""))

    def authenticate(self, exchange: Exchange) -> None:
        """Say who we are; the broker's refusal is raised by the exchange."""
        if self.mechanism == "PLAIN":
            exchange(f"\0{self.username}\0{self.password}".encode())
        else:
            _scram(HASHES[self.mechanism], self.username, self.password, exchange)


def asks_who_we_are(config: Mapping[str, str]) -> bool:
    return _protocol(config).startswith("sasl")


def mechanism_of(config: Mapping[str, str]) -> str:
    """How we say who we are; empty where that is not said, which means Kerberos."""
    return (config.get("sasl.mechanisms") or config.get("sasl.mechanism", "")).upper()


def _protocol(config: Mapping[str, str]) -> str:
    return config.get("security.protocol", "plaintext").lower()


def _tls(config: Mapping[str, str]) -> ssl.SSLContext:
    try:
        return _context(config)
    except OSError as error:
        names = ", ".join(name for name in _FILES if name in config)
        raise EnvironmentUnfit(
            f"TLS to Kafka cannot be set up: {error}; check {names or 'the certificates'}, on every executor"
        ) from error


def _context(config: Mapping[str, str]) -> ssl.SSLContext:
    trusted = config.get("ssl.ca.location")
    trusted = None if trusted == _PROBE else trusted or None
    folder = trusted if trusted and Path(trusted).is_dir() else None
    context = ssl.create_default_context(
        cafile=None if folder else trusted, capath=folder, cadata=config.get("ssl.ca.pem")
    )
    if config.get("enable.ssl.certificate.verification", "true").lower() not in _YES:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif config.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    password = config.get("ssl.key.password")
    if certificate := config.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, config.get("ssl.key.location"), password)
    elif pem := config.get("ssl.certificate.pem"):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as chain:  # for its owner only; Python takes files alone
            chain.write(f"{pem}\n{config.get('ssl.key.pem', '')}\n")
            chain.flush()
            context.load_cert_chain(chain.name, password=password)
    return context


def _scram(algorithm: str, username: str, password: str, exchange: Exchange) -> None:
    """RFC 5802: both sides show that they know the password, and neither says it."""
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = base64.b64encode(os.urandom(24)).decode()
    first = f"n={name},r={nonce}"
    challenge = exchange(b"n,," + first.encode()).decode()
    said = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    if not said.get("r", "").startswith(nonce) or not {"s", "i"} <= said.keys():
        raise Interrupted("Kafka's answer to SCRAM is none to our question")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(said["s"]), int(said["i"]))
    final = f"c=biws,r={said['r']}"
    exchanged = f"{first},{challenge},{final}".encode()

    def sign(key: bytes, content: bytes) -> bytes:
        return hmac.new(key, content, algorithm).digest()

    key = sign(salted, b"Client Key")
    signature = sign(hashlib.new(algorithm, key).digest(), exchanged)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
    answer = exchange(final.encode() + b",p=" + proof)
    expected = base64.b64encode(sign(sign(salted, b"Server Key"), exchanged))
    if not hmac.compare_digest(answer, b"v=" + expected):
        raise Interrupted("the broker does not know the password that it was to know (SCRAM)")
