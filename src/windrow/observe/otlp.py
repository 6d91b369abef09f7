"""The same metrics by OpenTelemetry, for those who push: instruments that are asked when the exporter's time has come.

OpenTelemetry has no histogram that can be asked. So a histogram is three counters, as Prometheus keeps it: its buckets,
with the bound as the attribute `le`, its count and its sum.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from windrow.extras import needed
from windrow.observe.histogram import Histogram
from windrow.observe.metrics import BY_NAME, Kind, Sample, buckets, series
from windrow.observe.provider import provided

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider, Observation

_METER: Final = "windrow"
_FRESH: Final = 0.5


def export(otlp: str, samples: Callable[[], Iterable[Sample]]) -> None:
    """Have the provider that the setting names ask for samples, from now on."""
    asked = _Asked(samples)
    meter = _provider(otlp).get_meter(_METER)
    for metric in BY_NAME.values():
        kept = meter.create_observable_gauge if metric.kind is Kind.GAUGE else meter.create_observable_counter
        for name in series(metric):
            kept(name, [asked.observer(name)], description=metric.help)


def observed(sample: Sample) -> Iterator[tuple[str, float, dict[str, str]]]:
    """A sample as instruments have it: name, value and attributes."""
    name, values, value = sample
    attributes = dict(zip(BY_NAME[name].labels, values, strict=True))
    if isinstance(value, Histogram):
        for bound, count in buckets(value):
            yield f"{name}_bucket", count, {**attributes, "le": bound}
        yield f"{name}_count", value.count, attributes
        yield f"{name}_sum", value.sum, attributes
    else:
        yield name, value, attributes


class _Asked:
    """Samples, gathered once for all instruments that are asked together."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples
        self._found: list[tuple[str, float, dict[str, str]]] = []
        self._at = -_FRESH

    def observer(self, name: str) -> Callable[[Any], "list[Observation]"]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - only where it is wanted

        def observe(_options: Any) -> "list[Observation]":
            return [Observation(value, attributes) for each, value, attributes in self._all() if each == name]

        return observe

    def _all(self) -> list[tuple[str, float, dict[str, str]]]:
        if time.monotonic() - self._at >= _FRESH:
            self._found = [each for sample in self._samples() for each in observed(sample)]
            self._at = time.monotonic()
        return self._found


def _provider(otlp: str) -> "MeterProvider":
    with needed("otel"):
        from opentelemetry.metrics import MeterProvider, get_meter_provider  # noqa: PLC0415 - as above
    made = provided("observe.otlp", otlp)
    return made if isinstance(made, MeterProvider) else get_meter_provider()
