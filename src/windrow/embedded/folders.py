"""Where servers keep their data and what was fetched for them.

A server's folder is a temporary one, gone when it stops, or a given one, which stays. A cached folder is
either whole or not there: it is made beside its place, under a lock, and moved there in one step. As root,
PostgreSQL and MariaDB run as another account, and whatever they touch has to be within that account's reach.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from windrow.errors import EnvironmentUnfit

LOCK = ".lock"
"""Lies in every server's folder; held while the server lives."""
NEEDED_FREE = 1_000_000_000


@dataclass(frozen=True)
class Account:
    """The user that a server runs as where that is not the current one."""

    name: str
    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Whether the account may read the path and pass through all folders above it."""
        path = path.resolve()
        return self._may(path, 0o5 if path.is_dir() else 0o4) and all(self._may(p, 0o1) for p in path.parents)

    def _may(self, path: Path, wanted: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (stat.S_IMODE(status.st_mode) >> shift) & wanted == wanted


def unprivileged_account() -> Account | None:
    """None for a plain user; for root, who may not run a database server, the account to use instead."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def require_space(folder: Path, needed: int = NEEDED_FREE) -> None:
    """Raises `EnvironmentUnfit` if the disk under the folder (which need not exist yet) is about full."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise EnvironmentUnfit(
            f"{folder} has {free / 1e6:.0f} MB free, {needed / 1e6:.0f} MB are needed; "
            f"make room, or point TMPDIR (temporary data) or WINDROW_CACHE (downloads) to another disk"
        )


def make_folder(given: Path | None, kind: str, account: Account | None) -> Path:
    """The given folder, or a new temporary one; owned by the account."""
    if given is None:
        require_space(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=f"windrow-{kind}-"))
    else:
        require_space(given)
        folder = given.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentUnfit(f"cannot make the folder {folder} ({error.strerror}); give another one") from error
    if account is not None:
        _hand_over(folder, account)
        if not account.reaches(folder):
            raise EnvironmentUnfit(
                f"as root, the server runs as {account.name}, who cannot reach {folder}; "
                f"give a folder that others may enter, or run as a plain user"
            )
    return folder


def _hand_over(folder: Path, account: Account) -> None:
    content = {path.name for path in folder.iterdir()}
    if content and LOCK not in content:
        raise EnvironmentUnfit(
            f"as root, the server needs {folder} for {account.name}, but it holds other files; "
            f"give a new folder, or one that an embedded server has made"
        )
    os.chown(folder, account.uid, account.gid)


def cache_folder() -> Path:
    """Where this user's downloads are kept; WINDROW_CACHE names another place."""
    chosen = os.environ.get("WINDROW_CACHE")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs  # noqa: PLC0415 - not needed where WINDROW_CACHE is set

    return platformdirs.user_cache_path("windrow")


def cache_folder_for(account: Account | None) -> Path:
    """A cache that the account can reach: this user's if it can, the machine's otherwise."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if account is None or account.reaches(folder):
        return folder
    import platformdirs  # noqa: PLC0415 - as above

    folder = platformdirs.site_cache_path("windrow")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(place: Path, make: Callable[[Path], None]) -> Path:
    """The folder at `place`, which `make` fills if it is not there yet; one maker at a time."""
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        busy = f"another process still makes {place}"
        with locked(place.with_name(f".{place.name}.lock"), wait=900, busy=busy):
            if not place.is_dir():
                _make_whole(place, make)
    return place.resolve()


def _make_whole(place: Path, make: Callable[[Path], None]) -> None:
    for torn in place.parent.glob(f".{place.name}.part-*"):
        shutil.rmtree(torn, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}.part-", dir=place.parent))
    try:
        part.chmod(0o755)
        make(part)
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, *, wait: float, busy: str) -> Iterator[int]:
    """Holds the lock file; yields its descriptor, which a child process may inherit and hold on to."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise EnvironmentUnfit(f"{busy}; stop it or wait for its end, and try again")
            time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
