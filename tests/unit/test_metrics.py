"""The table of metrics, what is made from it, and what names its metrics elsewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fix_metrics import READER
from windrow.errors import SettingsInvalid
from windrow.observe.histogram import BOUNDS, Histogram
from windrow.observe.metrics import BY_NAME, METRICS, Kind, Sample, exposition, reference, series
from windrow.observe.otlp import export

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
SERIES = {name: metric for metric in BY_NAME.values() for name in series(metric)}
SAMPLES = [
    Sample("windrow_leader", ("shop",), 1),
    Sample("windrow_records_published_total", ("shop", "3"), 12),
    Sample("windrow_latency_seconds", ("shop",), Histogram([1, *[0] * (len(BOUNDS) - 1), 2], 700.5)),
]


def test_names_follow_the_conventions() -> None:
    assert len(BY_NAME) == sum(map(len, METRICS.values()))
    for metric in BY_NAME.values():
        assert re.fullmatch(r"windrow(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric
        assert metric.name.endswith("_seconds") or metric.kind is not Kind.HISTOGRAM
        assert metric.help
        assert not metric.help.endswith(".")


def test_samples_are_exposed_as_prometheus_reads_them() -> None:
    families = {each.name: each for each in text_string_to_metric_families(exposition(SAMPLES))}
    assert {name: each.type for name, each in families.items()} == {
        "windrow_leader": "gauge",
        "windrow_records_published": "counter",
        "windrow_latency_seconds": "histogram",
    }
    published = families["windrow_records_published"].samples[0]
    assert (published.labels, published.value) == ({"relay": "shop", "shard": "3"}, 12)
    latency = {
        (each.name[24:], each.labels.get("le")): each.value for each in families["windrow_latency_seconds"].samples
    }
    assert latency["bucket", "0.001"] == latency["bucket", "300.0"] == 1
    assert latency["bucket", "+Inf"] == latency["count", None] == 3
    assert latency["sum", None] == 700.5


def test_sample_that_is_not_in_the_table_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        exposition([Sample("windrow_novelty", (), 1)])


def test_the_same_samples_go_by_opentelemetry() -> None:
    export("fix_metrics:provider", lambda: SAMPLES)
    data = READER.get_metrics_data()
    assert data
    found = {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): point.value  # type: ignore[union-attr]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    assert found["windrow_leader", (("relay", "shop"),)] == 1
    assert found["windrow_records_published_total", (("relay", "shop"), ("shard", "3"))] == 12
    assert found["windrow_latency_seconds_bucket", (("le", "+Inf"), ("relay", "shop"))] == 3
    assert found["windrow_latency_seconds_sum", (("relay", "shop"),)] == 700.5


def test_provider_that_is_not_there_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(SettingsInvalid, match=r"observe\.otlp"):
        export("nowhere:provider", list)


def test_reference_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert page.endswith(reference()), "write what windrow.observe.metrics.reference() returns into it"


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bwindrow_\w+", expression))


def expressions(found: Any) -> list[str]:
    """All that stands under the names of expressions, however deep."""
    if isinstance(found, dict):
        mine = [found[name] for name in ("expr", "definition") if isinstance(found.get(name), str)]
        return mine + [each for value in found.values() for each in expressions(value)]
    return [each for value in found for each in expressions(value)] if isinstance(found, list) else []


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=["alerts", "dashboard"])
def test_what_alerts_and_dashboard_name_is_there(file: Path) -> None:
    found = expressions(yaml.safe_load(file.read_text()))
    assert len(found) > 10
    for expression in found:
        assert named(expression), expression
        assert named(expression) <= SERIES.keys(), expression
        assert expression.count("(") == expression.count(")")
        for name in named(expression):
            if SERIES[name].kind is not Kind.GAUGE:
                assert re.search(rf"(rate|increase)\({name}\b", expression), f"{name} only ever grows: {expression}"
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            known = {label for name in named(expression) for label in SERIES[name].labels}
            assert set(re.split(r", *", grouped)) <= known | {"le", "instance"}, expression


def test_alerts_are_rules() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    assert group["name"] == "windrow"
    for rule in group["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Windrow[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)
    told = (ROOT / "docs" / "how-to" / "alert.md").read_text()
    assert [name for name in names if f"`{name}`" not in told] == []


def test_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["schemaVersion"] >= 39
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] <= place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert [each["refId"] for each in panel["targets"]] == list("ABCDEF")[: len(panel["targets"])]
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__all"} <= variables
