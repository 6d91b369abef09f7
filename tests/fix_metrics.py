"""A meter provider as a setting names it, whose metrics a test reads."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

READER = InMemoryMetricReader()


def provider() -> MeterProvider:
    return MeterProvider([READER])
