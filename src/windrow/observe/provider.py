"""Who makes the spans of a relay: its tasks run in processes of Spark's, where the application has set up nothing.

The setting `tracing` says it: `environment`, by OpenTelemetry's own variables (`OTEL_…`), as `opentelemetry-instrument`
does; or `module:function`, a function that sets the tracer provider or returns one. Each process does it once. What was
recorded is handed to the exporters when a task ends, since Spark ends its processes without a word.
"""

import os
import threading
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import SettingsInvalid
from windrow.extras import needed
from windrow.observe.sends import SendSpans
from windrow.observe.tracing import TRACER

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

ENVIRONMENT: Final = "environment"
_FLUSH_WITHIN_MS: Final = 5_000
_providers: dict[str, "TracerProvider"] = {}
_providing = threading.Lock()


def send_spans(tracing: str, source: str) -> SendSpans | None:
    """The spans of what a task sends; None where there is no tracing."""
    return SendSpans(_provider(tracing).get_tracer(TRACER), source) if tracing else None


def flush(tracing: str) -> None:
    """Have the exporters send what was recorded; waits for a while at most."""
    provider: Any = _providers.get(tracing)
    if provider is not None and hasattr(provider, "force_flush"):
        provider.force_flush(_FLUSH_WITHIN_MS)


def _provider(tracing: str) -> "TracerProvider":
    with _providing:
        if tracing not in _providers:
            _providers[tracing] = _made(tracing)
        return _providers[tracing]


def _made(tracing: str) -> "TracerProvider":
    with needed("otel"):
        from opentelemetry.trace import TracerProvider, get_tracer_provider  # noqa: PLC0415 - only where it is wanted
    made = provided("tracing", tracing)
    return made if isinstance(made, TracerProvider) else get_tracer_provider()


def provided(setting: str, value: str) -> object:
    """Do what a setting's value says: what its function returns; None where OpenTelemetry's variables say it all."""
    if value == ENVIRONMENT:
        _configure(setting)
        return None
    module, _, function = value.partition(":")
    try:
        return getattr(import_module(module), function)()
    except (ImportError, AttributeError) as error:
        mistake = f"{setting}: {value}: {error}; name a function of a module that Spark's tasks can import"
        raise SettingsInvalid([mistake]) from error


@cache
def _configure(setting: str) -> None:
    """Set the providers up as OpenTelemetry's own start-up does: by the configurator that is installed."""
    wanted = os.environ.get("OTEL_PYTHON_CONFIGURATOR")
    found = [each for each in entry_points(group="opentelemetry_configurator") if wanted in {None, each.name}]
    if not found:
        remedy = "pip install opentelemetry-distro, or give a function"
        raise SettingsInvalid([f"{setting}: environment: no configurator is installed: {remedy}"])
    found[0].load()().configure()
