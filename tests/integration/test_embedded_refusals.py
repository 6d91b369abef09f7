"""What a machine lacks is said before anything else happens, with the remedy."""

import os
import time
from pathlib import Path

import pytest

from windrow import embedded
from windrow.embedded import folders, jars
from windrow.embedded.broker import JARS
from windrow.errors import EnvironmentUnfit
from windrow.java import find_java

DEAD_REGISTRY = """\
<ivysettings>
  <settings defaultResolver="dead"/>
  <resolvers><ibiblio name="dead" m2compatible="true" root="http://127.0.0.1:9/maven"/></resolvers>
</ivysettings>
"""


def fake_java(folder: Path, banner: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    java.chmod(0o755)
    return java


def test_too_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(EnvironmentUnfit, match=rf"17 or 21 is needed, found 11 at {java}; install .*JAVA_HOME"):
        embedded.Kafka().start()


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == java


@pytest.mark.parametrize(("variable", "what"), [("PATH", "none on PATH"), ("JAVA_HOME", "no bin/java in it")])
def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, what: str) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(EnvironmentUnfit, match=what):
        find_java()


def test_registry_that_does_not_answer_is_reported_soon_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(DEAD_REGISTRY)
    monkeypatch.setenv("WINDROW_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("WINDROW_CACHE", str(tmp_path / "cache"))
    began = time.monotonic()
    with pytest.raises(EnvironmentUnfit, match=r"could not fetch the Kafka broker .*WINDROW_IVY_SETTINGS") as error:
        jars.fetch(JARS)
    assert time.monotonic() - began < 15
    assert "refused" in str(error.value)
    assert len(str(error.value).splitlines()) <= 6
    assert "fetching the Kafka broker" in capfd.readouterr().err
    assert [path for path in (tmp_path / "cache" / "jars").iterdir() if path.is_dir()] == []


def test_settings_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDROW_IVY_SETTINGS", str(tmp_path / "missing.xml"))
    monkeypatch.setenv("WINDROW_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EnvironmentUnfit, match=r"WINDROW_IVY_SETTINGS names .*missing.xml"):
        jars.fetch(JARS)


def test_full_disk_is_reported_with_what_is_there_and_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfit, match=r"MB free, 1000000000000 MB are needed; make room"):
        folders.require_space(tmp_path / "not" / "yet", needed=10**18)


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        folders.locked(tmp_path / "lock", wait=0, busy="nobody uses it"),
        pytest.raises(EnvironmentUnfit, match="another server uses it"),
        folders.locked(tmp_path / "lock", wait=0.1, busy="another server uses it"),
    ):
        pass


def test_half_made_cache_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "jars"

    def fail(part: Path) -> None:
        (part / "half").touch()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        folders.cached(place, fail)
    assert not place.exists()
    (tmp_path / ".jars.part-torn").mkdir()
    assert folders.cached(place, lambda part: (part / "whole").touch()) == place
    assert [path.name for path in place.iterdir()] == ["whole"]
    assert not (tmp_path / ".jars.part-torn").exists()
