"""Spans: those of this process in memory, those of Spark's tasks in a file that their provider writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

_PROVIDER = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

def provider():
    out = open({path!r}, "a")
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\\n")
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(exporter))
    return made
"""


class Spans:
    """What this process has recorded."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        trace.set_tracer_provider(provider)
        self.tracer = provider.get_tracer("tests")

    def named(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(span.to_json()) for span in self._exporter.get_finished_spans() if span.name == name]

    def clear(self) -> None:
        self._exporter.clear()


@pytest.fixture(scope="session")
def _recorded() -> Spans:
    """OpenTelemetry takes one provider in the life of a process."""
    return Spans()


@pytest.fixture
def spans(_recorded: Spans) -> Iterator[Spans]:
    _recorded.clear()
    yield _recorded
    _recorded.clear()


class TaskSpans(NamedTuple):
    """What Spark's tasks record under this setting."""

    tracing: str
    path: Path

    def named(self, name: str) -> list[dict[str, Any]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [span for span in map(json.loads, lines) if span["name"] == name]


@pytest.fixture
def task_spans(spark: SparkSession, tmp_path: Path) -> TaskSpans:
    """A module of the user's, which is sent to the tasks."""
    module, path = f"traced_{uuid4().hex[:8]}", tmp_path / "spans"
    source = tmp_path / f"{module}.py"
    source.write_text(_PROVIDER.format(path=str(path)))
    spark.sparkContext.addPyFile(str(source))
    return TaskSpans(f"{module}:provider", path)
