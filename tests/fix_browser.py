"""A headless Chromium, as `make setup` has fetched it, and a page that remembers every complaint of the browser's.

It is the one thing here that may be missing, since no Python package carries it: then the tests that need it are
skipped, and say so.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

_TOOL = Path(__file__).parents[1] / "tools" / "browser.py"
_WITHIN = 60_000
_AWAY = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_CONNECTION_CLOSED", "ERR_EMPTY_RESPONSE")
"""How a request ends whose server is gone, or goes before it has answered."""
_FONTS = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
    "<dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>\n"
)
"""The browser's own alone, so that pictures look the same on all machines."""


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("browser_tool", _TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Of one module, since playwright keeps an event loop running, which tests of others may not like."""
    place = _tool().folder()
    if not place.is_dir():
        pytest.skip("THERE IS NO BROWSER, so the dashboard's page is not tested: run .venv/bin/python tools/browser.py")
    fonts = tmp_path_factory.mktemp("fonts") / "fonts.conf"
    fonts.write_text(_FONTS.format(fonts=place / "fonts", cache=fonts.parent / "cache"), encoding="utf-8")
    environment = {
        **os.environ,
        "LC_ALL": "en_US.UTF-8",
        "LD_LIBRARY_PATH": f"{place}/lib",
        "FONTCONFIG_FILE": str(fonts),
    }
    expect.set_options(timeout=_WITHIN)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=place / "chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            env=environment,
        )
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing went wrong in the end, but that its server was away."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark", locale="en-US") as context:
        page, complaints = context.new_page(), []
        page.set_default_timeout(_WITHIN)
        page.on("console", lambda told: complaints.append(told.text) if told.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        assert [each for each in complaints if not each.endswith(_AWAY)] == []
