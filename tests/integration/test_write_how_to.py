"""Every example of docs/how-to/write-from-your-framework.md runs as it stands, and writes what it says."""

import pytest

from fix_habits import Database, django_connection
from fix_snippets import Snippet, snippets

EXAMPLES = snippets("python", "docs/how-to/write-from-your-framework.md")


@pytest.mark.parametrize("snippet", EXAMPLES, ids=str)
def test_an_example_runs_and_writes_what_it_says(
    snippet: Snippet, postgres_outbox: Database, maria_outbox: Database
) -> None:
    example, maria = snippet.text, maria_outbox.given()
    for there, here in {
        "app@db/shop": f"postgres@127.0.0.1:{postgres_outbox.port}/{postgres_outbox.name}",
        'host="db", port=3306, user="app", database="shop"': ", ".join(f"{name}={maria[name]!r}" for name in maria),
        "http://registry:8081": "mock://",
    }.items():
        example = example.replace(there, here)
    connection = django_connection(postgres_outbox, "default")
    exec(compile(example, "example", "exec"), {"__name__": "example"})  # noqa: S102 - our own
    connection.close()
    databases = (postgres_outbox, maria_outbox)
    singly = example.count("outbox.write(")
    assert sum(len(each.rows()) for each in databases) == (5_000 if "write_many" in example else singly)
    assert sum(each.orders() for each in databases) == singly


def test_the_page_has_an_example_for_every_section() -> None:
    assert len(EXAMPLES) == 13
