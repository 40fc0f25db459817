"""Prometheus itself reads what is in `monitoring/`: its tool checks the rules, and a real one scrapes a real server.

Skips, saying so, where `promtool` or `prometheus` is not installed (Debian's package `prometheus` has both).
"""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.ports import HeldPort
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
BOARD = json.loads((MONITORING / "grafana" / "dashboards" / "coordinator.json").read_text())
SEEN_AT = "20m"


class Case(NamedTuple):
    """When an alert is to be raised and when not: series with their values every 5 s (promtool's notation)."""

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str] = {}  # noqa: RUF012 - of a tuple
    summary: str | None = None
    """Of a rule whose summary holds a value."""


def slow(name: str, le_s: str, count: str) -> dict[str, str]:
    """Of a histogram: how many values were at most `le_s`, and how many in all (each a start and a growth)."""
    return {
        f'{name}_bucket{{le="0.1"}}': "0+0x300",
        f'{name}_bucket{{le="{le_s}"}}': count,
        f'{name}_bucket{{le="+Inf"}}': count,
    }


CASES = {
    "CoordinatorDown": Case(
        {'up{job="coordinator"}': "0x300"}, {'up{job="coordinator"}': "1x300"}, {"job": "coordinator"}
    ),
    "CoordinatorShardFailed": Case(
        {'coordinator_shards{status="failed"}': "2x300"},
        {'coordinator_shards{status="failed"}': "0x300"},
        {"status": "failed"},
        "2 shards take neither reads nor writes: the disk broke its word.",
    ),
    "CoordinatorDiskFull": Case(
        {'coordinator_shards{status="full"}': "0x300", 'coordinator_partitions{status="full"}': "1x300"},
        {'coordinator_shards{status="full"}': "0x300", 'coordinator_partitions{status="full"}': "0x300"},
        {"status": "full"},
    ),
    "CoordinatorPartitionFailed": Case(
        {'coordinator_partitions{status="failed"}': "1x300"},
        {'coordinator_partitions{status="failed"}': "0x300", 'coordinator_partitions{status="active"}': "9x300"},
        {"status": "failed"},
        "1 partitions of topics are not served: their log is damaged or cannot be written.",
    ),
    "CoordinatorMetadataLogFailed": Case(
        {"coordinator_metadata_writable": "0x300"}, {"coordinator_metadata_writable": "1x300"}
    ),
    "CoordinatorEventsLost": Case(
        {"coordinator_event_log_lost_total": "0x230 7x70"},
        {"coordinator_event_log_lost_total": "7x300"},
        summary="7 events were not written. Commits are taken as ever; what was decided is not on record.",
    ),
    "CoordinatorSyncFailed": Case(
        {"coordinator_log_syncs_failed_total": "0x230 1x70"}, {"coordinator_log_syncs_failed_total": "1x300"}
    ),
    "CoordinatorDiskSlow": Case(
        slow("coordinator_log_sync_seconds", "0.5", "0+10x300"),
        slow("coordinator_log_sync_seconds", "0.25", "0+10x300"),
        summary="99% of fdatasyncs take up to 496ms; commits wait for them.",
    ),
    "CoordinatorLoopBlocked": Case(
        slow("coordinator_loop_lag_seconds", "0.5", "0+10x300"),
        slow("coordinator_loop_lag_seconds", "0.25", "0+10x300"),
        summary="The server's loop is late by 496ms.",
    ),
    "CoordinatorRepliesParked": Case(
        {"coordinator_parked_replies": "1001x300"},
        {"coordinator_parked_replies": "1000x300"},
        summary="1001 answers wait for the disk.",
    ),
    "CoordinatorRebalancesOften": Case(
        {
            'coordinator_rebalances_total{cause="a"}': "0+1x300",
            'coordinator_groups{kind="classic",state="Stable"}': "1x300",
        },
        {
            'coordinator_rebalances_total{cause="a"}': "0+0.1x300",
            'coordinator_groups{kind="classic",state="Stable"}': "1x300",
        },
    ),
    "CoordinatorMembersExpire": Case(
        {'coordinator_members_expired_total{timeout="session"}': "0+0.1x300"},
        {'coordinator_members_expired_total{timeout="session"}': "0+0.05x300"},
        summary="12 members were given up in ten minutes.",
    ),
    "CoordinatorCommitsFenced": Case(
        {'coordinator_commits_fenced_total{reason="ILLEGAL_GENERATION"}': "0+6x300"},
        {'coordinator_commits_fenced_total{reason="ILLEGAL_GENERATION"}': "0+4x300"},
        {"reason": "ILLEGAL_GENERATION"},
        "Commits of former members are refused: ILLEGAL_GENERATION.",
    ),
    "CoordinatorConnectionsRefused": Case(
        {'coordinator_connections_refused_total{listener="0"}': "0x230 1x70"},
        {'coordinator_connections_refused_total{listener="0"}': "5x300"},
        {"listener": "0"},
    ),
    "CoordinatorMemoryShort": Case(
        {"coordinator_memory_waiting": "3x300"},
        {"coordinator_memory_waiting": "0x300"},
        summary="3 connections wait for memory: large requests and answers of others hold all of it.",
    ),
    "CoordinatorMarkersUndelivered": Case(
        {"coordinator_markers_waiting": "2x300"},
        {"coordinator_markers_waiting": "0x300"},
        summary="2 partitions cannot take the marker of a transaction that was decided: their readers stand still.",
    ),
    "CoordinatorTransactionsTimeOut": Case(
        {'coordinator_transactions_ended_total{cause="timeout",outcome="abort"}': "0x230 1x70"},
        {'coordinator_transactions_ended_total{cause="client",outcome="commit"}': "0+9x300"},
        {"cause": "timeout", "outcome": "abort"},
    ),
}


@pytest.fixture
def promtool() -> str:
    return tool("promtool")


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_every_alert_has_a_case_and_one_whose_summary_is_filled_in_says_with_what():
    assert CASES.keys() == RULES.keys()
    for name, rule in RULES.items():
        assert ("{{" in rule["annotations"]["summary"]) == bool(CASES[name].summary), name


def test_the_configuration_is_one(promtool):
    done = subprocess.run(
        [promtool, "check", "config", str(MONITORING / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_raised_when_it_should_be_and_only_then(promtool, tmp_path):
    tests = []
    for name, case in CASES.items():
        rule = RULES[name]
        annotations = rule["annotations"] | ({"summary": case.summary} if case.summary else {})
        alert = {"exp_labels": rule["labels"] | case.labels, "exp_annotations": annotations}
        for series, expected in ((case.fires, [alert]), (case.quiet, [])):
            tests.append(
                {
                    "interval": "5s",
                    "input_series": [{"series": each, "values": values} for each, values in series.items()],
                    "alert_rule_test": [{"eval_time": SEEN_AT, "alertname": name, "exp_alerts": expected}],
                }
            )
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(MONITORING / "alerts.yml")], "evaluation_interval": "5s", "tests": tests}, width=1000
        )
    )
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_prometheus_scrapes_a_server_and_understands_every_panel_and_rule(coordinator_process, tmp_path):
    command, server, port = tool("prometheus"), coordinator_process(), HeldPort()
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [server.admin.removeprefix("http://")]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    arguments = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
    with Connection(server.bootstrap) as link:
        link.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [command, *arguments, f"--web.listen-address={port.address}"], stdout=log, stderr=log
        )
    try:
        until_scraped(port.address)
        for panel in BOARD["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"].replace("$__rate_interval", "1m")
                assert asked(port.address, "query", query=expression)["status"] == "success", expression
        beats = asked(port.address, "query", query='coordinator_requests_total{api="Heartbeat"}')["data"]["result"]
        assert {one["metric"]["error"]: one["value"][1] for one in beats} == {"UNKNOWN_MEMBER_ID": "1", "NONE": "0"}
        (group,) = asked(port.address, "rules")["data"]["groups"]
        assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(RULES, "ok")
        assert [rule["name"] for rule in group["rules"] if rule["state"] != "inactive"] == []
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        port.release()


def until_scraped(address: str) -> None:
    """Returns when there are two samples of everything, and the rules have been looked at."""

    def scraped() -> bool:
        try:
            found = asked(address, "query", query='count_over_time(up{job="coordinator"}[1m])')["data"]["result"]
            states = {rule["health"] for group in asked(address, "rules")["data"]["groups"] for rule in group["rules"]}
        except OSError:
            return False  # it is not there yet
        return bool(found) and float(found[0]["value"][1]) >= 2 and states == {"ok"}

    wait_until(scraped, "two scrapes")


def asked(address: str, what: str, **parameters: str) -> Any:
    with urllib.request.urlopen(
        f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}", timeout=10
    ) as got:
        return json.load(got)
