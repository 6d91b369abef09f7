"""Every example of docs/how-to/write-from-your-framework.md runs as it stands, and writes what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from fix_habits import Database, django_connection

PAGE = (Path(__file__).parents[2] / "docs/how-to/write-from-your-framework.md").read_text()
EXAMPLES = re.findall(r"^## (.+?)$|^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def examples() -> list[Any]:
    """Each example, named after its section."""
    found, section, count = [], "", 0
    for title, code in EXAMPLES:
        if title:
            section, count = title, 0
        else:
            count += 1
            found.append(pytest.param(code, id=f"{section} {count}"))
    return found


@pytest.mark.parametrize("code", examples())
def test_an_example_runs_and_writes_what_it_says(code: str, postgres_outbox: Database, maria_outbox: Database) -> None:
    maria = maria_outbox.given()
    for there, here in {
        "app@db/shop": f"postgres@127.0.0.1:{postgres_outbox.port}/{postgres_outbox.name}",
        'host="db", port=3306, user="app", database="shop"': ", ".join(f"{name}={maria[name]!r}" for name in maria),
        "http://registry:8081": "mock://",
    }.items():
        code = code.replace(there, here)
    connection = django_connection(postgres_outbox, "default")
    exec(compile(code, "example", "exec"), {"__name__": "example"})  # noqa: S102 - our own
    connection.close()
    databases = (postgres_outbox, maria_outbox)
    singly = code.count("outbox.write(")
    assert sum(len(each.rows()) for each in databases) == (5_000 if "write_many" in code else singly)
    assert sum(each.orders() for each in databases) == singly


def test_the_page_has_an_example_for_every_section() -> None:
    assert len(examples()) == 13
