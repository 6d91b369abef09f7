"""Who may see and who may change: the Host header against rebound names, the Origin against other pages, a token.

A page of another site can have a browser send requests here, and with a name of its own that it rebinds to this
address, read the answers. So the name asked for must be one that nobody else can own: an address, localhost, or one
that was given. What changes or shows content needs the token besides, in a header that no other page can set.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from windrow.errors import SettingsInvalid

VARIABLE: Final = "WINDROW_DASHBOARD_TOKEN"
_SHORTEST: Final = 16


@dataclass(frozen=True, slots=True)
class Guard:
    """What requests are held against."""

    token: str | None
    """Without one, nobody may change anything."""
    names: frozenset[str] = frozenset()
    """Names by which the dashboard is reached, besides addresses and localhost."""

    def __repr__(self) -> str:
        return f"Guard(names={sorted(self.names)})"

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request was meant for us, and comes from our own page or from none."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        return self._is_ours(host) and origin in {None, f"http://{host}", f"https://{host}"}

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether the request carries the token."""
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == "localhost" or name in self.names or _is_address(name)


def given_token(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in the file or else in the environment; None where there is neither."""
    if file:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalid([f"the token's file {file} cannot be read: {type(error).__name__}"]) from error
    else:
        token = environment.get(VARIABLE, "").strip()
        if not token:
            return None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise SettingsInvalid([f"the dashboard's token: give {_SHORTEST} or more printable ASCII characters"])
    return token


def made_token() -> str:
    return secrets.token_urlsafe(24)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
