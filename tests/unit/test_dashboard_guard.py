"""Who may see and change: names, origins, tokens; and where the token comes from."""

from pathlib import Path

import pytest

from windrow.dashboard.guard import Guard, given_token, made_token
from windrow.errors import SettingsInvalid

GUARD = Guard("the-right-token-of-tests", frozenset({"dashboard.example"}))


@pytest.mark.parametrize("host", ["127.0.0.1:9465", "[::1]:9465", "localhost:9465", "10.0.0.7", "dashboard.example"])
def test_names_that_nobody_else_can_own_are_known(host: str) -> None:
    assert GUARD.knows({"Host": host})
    assert GUARD.knows({"Host": host, "Origin": f"http://{host}"})
    assert not GUARD.knows({"Host": host, "Origin": "http://evil.example"})
    assert not GUARD.knows({"Host": host, "Origin": "null"})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:9465", "127.0.0.1.evil.example", "localhost.", "[::1"]
)
def test_rebound_names_are_not(host: str) -> None:
    assert not GUARD.knows({"Host": host})
    assert not GUARD.knows({"Host": host, "Origin": f"http://{host}"})
    assert not GUARD.knows({})


def test_only_the_token_admits() -> None:
    assert GUARD.admits({"Authorization": "Bearer the-right-token-of-tests"})
    assert GUARD.admits({"Authorization": "bearer the-right-token-of-tests"})
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        "Bearer the-right-token-of-test",
        "Basic the-right-token-of-tests",
        "Bearer ü",
    ):
        assert not GUARD.admits({"Authorization": wrong})
    assert not GUARD.admits({})
    assert not Guard(None).admits({"Authorization": "Bearer None"})


def test_the_token_shows_in_no_text() -> None:
    assert "right" not in repr(GUARD)


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file-of-tests\n")
    environment = {"WINDROW_DASHBOARD_TOKEN": "from-the-environment"}
    assert given_token(file, environment) == "from-the-file-of-tests"
    assert given_token(None, environment) == "from-the-environment"
    assert given_token(None, {}) is None
    assert len(made_token()) >= 32
    file.write_text("short")
    with pytest.raises(SettingsInvalid, match="16 or more"):
        given_token(file, {})
    with pytest.raises(SettingsInvalid, match="cannot be read"):
        given_token(tmp_path / "none", {})
