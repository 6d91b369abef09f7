"""Who may use a broker's secured listener."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Security:
    """Users and their passwords. The first one is the user of `Kafka.client_config`."""

    users: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.users:
            raise ValueError("a secured listener needs at least one user")
