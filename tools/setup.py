#!/usr/bin/env python3
"""Prepares `.venv`: the virtual environment, the pinned dependencies, windrow itself, the broker jars and a browser.

`make setup` calls it with the system's Python, so it needs the standard library alone and stays readable for an
old Python 3, to which it says what is missing. Invariant: `.venv/.ready` is there only if everything else is,
and holds the folder that it was made for; whatever a broken run left behind, the next one mends.
"""

import collections
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY = VENV / ".ready"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
OLDEST = (3, 11)
GIGABYTES = 3
STEPS = 5


class Unfit(Exception):
    """Something is missing; the message names the remedy."""


def main() -> int:
    began = time.monotonic()
    try:
        check_machine()
        make_environment()
        install_dependencies()
        install_windrow()
        fetch_jars()
        fetch_browser()
        READY.write_text(str(ROOT), encoding="utf-8")
    except Unfit as error:
        say(f"setup: {error}")
        return 1
    except KeyboardInterrupt:
        say("setup: interrupted; make setup goes on from here")
        return 130
    say(f"ready after {time.monotonic() - began:.0f} s")
    return 0


def check_machine() -> None:
    if sys.version_info < OLDEST:
        raise Unfit(
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}; "
            "install one (apt-get install python3.11 python3.11-venv) and run: make setup PYTHON=python3.11"
        )
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise Unfit(
            f"{sys.executable} cannot make virtual environments; "
            "run: apt-get install python3-venv, then make setup again"
        )
    check_java()


def check_java() -> None:
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "src"))
    from windrow.errors import EnvironmentUnfit  # noqa: PLC0415 - not for an old Python
    from windrow.java import find_java  # noqa: PLC0415 - as above

    try:
        find_java()
    except EnvironmentUnfit as error:
        raise Unfit(str(error)) from error


def make_environment() -> None:
    """A sound virtual environment is kept; any other is made anew."""
    READY.unlink(missing_ok=True)
    fault = environment_fault()
    if not fault:
        step(1, "virtual environment .venv is there")
        return
    check_space()
    step(1, f"virtual environment .venv ({fault})")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
    if made.returncode:
        raise Unfit("the virtual environment could not be made, see above; remove .venv and run make setup again")


def environment_fault() -> str:
    """What keeps `.venv` from being used; empty where it is sound."""
    if not VENV.exists():
        return "new"
    # It holds absolute paths: in the scripts' first lines, and here as the command that made it.
    try:
        made_by = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return "made anew: it was half made"
    if not re.search(rf"^command = .* {re.escape(str(VENV))}$", made_by, re.MULTILINE):
        return "made anew: it was made for another folder"
    probe = f"import pip, sys; sys.exit(sys.version_info < {OLDEST})"
    try:
        fit = subprocess.run([str(PYTHON), "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        fit = False
    return "" if fit else "made anew: its Python is gone, broken or too old"


def check_space() -> None:
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < GIGABYTES:
        raise Unfit(
            f"{GIGABYTES} GB of free disk are needed for .venv, {ROOT} has {free:.1f}; "
            "free some, or clone to a larger disk, then run make setup again"
        )


def install_dependencies() -> None:
    pinned = re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    step(2, f"dependencies: {len(pinned)} packages, as pinned in {LOCK.name}")
    pip("--no-compile", "--require-hashes", "--requirement", str(LOCK))
    # On all processors, where pip takes one. Templates among the packages' files do not compile, and need not.
    compiling = [str(PYTHON), "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
    subprocess.run(compiling, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def install_windrow() -> None:
    step(3, "windrow itself, editable")
    # What builds it is pinned with the rest, so nothing more is fetched.
    pip("--no-deps", "--no-build-isolation", "--quiet", "--editable", str(ROOT))


def fetch_jars() -> None:
    step(4, "broker jars, into the user's cache")
    fetched = subprocess.run(
        [str(VENV / "bin" / "windrow"), "servers", "fetch"], stdout=subprocess.DEVNULL, check=False
    )
    if fetched.returncode:
        raise Unfit("the broker jars are not there, see above; then run make setup again")


def fetch_browser() -> None:
    """Without it all but the dashboard's page can be tested, so that is said and no more."""
    step(5, "a browser for the dashboard's tests, into the user's cache")
    fetched = subprocess.run([str(PYTHON), str(ROOT / "tools" / "browser.py")], stdout=subprocess.DEVNULL, check=False)
    if fetched.returncode:
        say(
            "setup: no browser, see above: the tests of the dashboard's page will be SKIPPED; "
            "check npm's registry (npm config get registry), then run: .venv/bin/python tools/browser.py"
        )


def pip(*arguments: str) -> None:
    """`pip install`, with pip's own progress; its complaints are shown and decide which remedy is named."""
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
    said = collections.deque(maxlen=50)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as running:
        for line in running.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            said.append(line.strip())
    if running.returncode:
        raise Unfit(remedy(list(said)))


def remedy(said: "list[str]") -> str:
    """A sentence for what pip complained about."""
    everything = "\n".join(said)
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    cause = errors[-1] if errors else "see above"
    if "No space left" in everything:
        return f"the disk is full; free {GIGABYTES} GB, then run make setup again"
    if "DO NOT MATCH THE HASHES" in everything:
        return (
            f"a package is not the one that {LOCK.name} pins, see above; "
            "empty pip's cache (pip cache purge) and run make setup again"
        )
    if re.search(r"Retrying|Could not find a version|No matching distribution|[Cc]onnection|timed out", everything):
        return (
            f"the package registry did not answer: {cause}; "
            "check the network or pip's index settings (pip config list), then run make setup again"
        )
    return f"pip failed: {cause}; mend that, then run make setup again"


def step(number: int, what: str) -> None:
    say(f"{number}/{STEPS} {what}")


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    # Python's own buffering must not hold our lines back behind pip's.
    os.environ["PYTHONUNBUFFERED"] = "1"
    sys.exit(main())
