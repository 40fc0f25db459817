"""The dashboard and the alert rules use metrics and labels that exist."""

import json
import re
from pathlib import Path

import pytest
import yaml

from coordinator.admin.metrics import COUNTER, HISTOGRAM, WORKER_METRICS
from coordinator.admin.metrics import METRICS as METRICS_OF_ALL

METRICS = (*METRICS_OF_ALL, *WORKER_METRICS)
MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
BOARD = json.loads((MONITORING / "grafana" / "dashboards" / "coordinator.json").read_text())
RULES = [rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
PROCESS = {"process_cpu_seconds_total": set(), "process_resident_memory_bytes": set()}
"""Metrics that the Prometheus library has for any process on Linux."""
WORDS = {
    "sum",
    "max",
    "bool",
    "by",
    "or",
    "rate",
    "increase",
    "histogram_quantile",
    "count",
    "le",
    "job",
    "instance",
    "m",
    "s",
}


def samples() -> dict[str, set[str]]:
    """The names of all samples, with their labels."""
    found: dict[str, set[str]] = {"up": {"job"}, **PROCESS}
    for metric in METRICS:
        labels = set(metric.labels)
        if metric.kind == HISTOGRAM:
            found[f"{metric.name}_bucket"] = labels | {"le"}
            found[f"{metric.name}_sum"] = found[f"{metric.name}_count"] = labels
        else:
            found[metric.name + ("_total" if metric.kind == COUNTER else "")] = labels
    return found


def expressions() -> list[str]:
    on_board = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    return [*on_board, *(rule["expr"] for rule in RULES)]


@pytest.mark.parametrize("expression", expressions())
def test_every_name_and_label_in_an_expression_exists(expression):
    known = samples()
    bare = re.sub(r'"[^"]*"|\$__rate_interval|\[[^\]]*\]', "", expression)
    words = set(re.findall(r"[a-zA-Z_]\w*", bare))
    names = words & known.keys()
    assert names, "the expression uses no metric"
    labels = set().union(*(known[name] for name in names))
    assert words <= names | labels | WORDS


def test_legends_use_labels_of_their_expressions():
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert label in target["expr"], panel["title"]


def test_the_board_asks_for_its_data_source_job_and_instance():
    variables = {each["name"]: each for each in BOARD["templating"]["list"]}
    assert [each["type"] for each in variables.values()] == ["datasource", "query", "query"]
    assert variables["datasource"]["query"] == "prometheus"
    for name in ("job", "instance"):
        metric = re.fullmatch(r"label_values\((\w+)(?:{job=~\"\$job\"})?, (\w+)\)", variables[name]["query"]["query"])
        assert metric is not None
        assert metric[1] in samples()
        assert metric[2] == name
    used = [each["datasource"] for each in (*variables.values(), *BOARD["panels"]) if "datasource" in each]
    assert {json.dumps(each) for each in used} == {'{"type": "prometheus", "uid": "${datasource}"}'}


def test_every_query_of_the_board_is_of_the_selected_servers():
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            for selector in re.findall(r"(?:coordinator|process)_\w+({[^}]*})?", target["expr"]):
                assert selector.startswith('{job=~"$job", instance=~"$instance"'), target["expr"]


def test_every_alert_has_a_summary_and_an_action():
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_the_dashboard_or_an_alert_shows_every_metric():
    shown = " ".join(expressions())
    # A server with fault rules is part of a test, which nobody watches on a dashboard.
    unseen = {"coordinator_fault_rules", "coordinator_faults_acted"}
    assert {metric.name for metric in METRICS if metric.name not in shown} == unseen


def test_panels_do_not_overlap():
    taken = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
