"""The pure parts of the embedded servers."""

from pathlib import Path

import pytest

from windrow.embedded import ports
from windrow.embedded.broker import _escaped
from windrow.embedded.folders import Account
from windrow.embedded.jars import telling_lines
from windrow.embedded.postgres import _quoted
from windrow.java import parse_major


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_java_version_is_read_from_its_banner(banner: str, major: int | None) -> None:
    assert parse_major(banner) == major


def test_free_ports_differ_and_lie_below_those_of_outgoing_connections() -> None:
    found = [ports.free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert min(found) >= ports.LOWEST
    assert max(found) < ports._first_outgoing_port()


def test_telling_lines_name_the_cause_once_and_no_address() -> None:
    output = [
        ":: resolving dependencies ::",
        "\tServer access error at url https://registry.example/org/kafka.pom (Connection refused)",
        "\t\t:: org.apache.kafka#kafka_2.13;9.9: not found",
        "\t\t:: org.apache.kafka#kafka_2.13;9.9: not found",
    ]
    assert telling_lines(output) == [
        "Server access error at url <address> (Connection refused)",
        "org.apache.kafka#kafka_2.13;9.9: not found",
    ]


def test_values_of_a_properties_file_are_escaped() -> None:
    assert _escaped("a\\b é") == "a\\\\b \\u00e9"
    assert (_escaped(True), _escaped(7)) == ("true", "7")


def test_values_of_postgresql_conf_are_quoted() -> None:
    assert _quoted("it's \\") == "'it''s \\\\'"


def test_account_does_not_reach_below_a_closed_folder(tmp_path: Path) -> None:
    stranger = Account("stranger", 54321, 54321)
    tmp_path.chmod(0o700)
    (tmp_path / "inner").mkdir()
    assert not stranger.reaches(tmp_path / "inner")
    assert stranger.reaches(Path("/"))
