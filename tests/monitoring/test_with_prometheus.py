"""Prometheus reads the files in `monitoring/`: promtool checks the rules, and Prometheus scrapes a server.

The tests skip themselves if `promtool` or `prometheus` is not installed (Debian's package `prometheus` has both).
"""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.ports import HeldPort
from tests.support.recorded_metrics import (
    CALM_DAY_S,
    CALM_GROUPS,
    Recording,
    record,
    rolling_restart,
    storm,
    zombies,
)
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
    """Series that raise an alert and series that do not, with a value every 5 s in the notation of promtool."""

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str] = {}  # noqa: RUF012 - nothing changes it
    summary: str | None = None
    """The expected summary, if the rule's summary contains a value."""


def slow(name: str, le_s: str, count: str) -> dict[str, str]:
    """A histogram with `count` values, all between 0.1 s and `le_s`."""
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
        "2 shards accept neither reads nor writes because the disk failed.",
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
        "1 partitions of topics are unavailable because their logs are damaged or cannot be written.",
    ),
    "CoordinatorGroupsTooLarge": Case(
        {'coordinator_groups_too_large_total{setting="limit.group.bytes"}': "0+1x300"},
        {'coordinator_groups_too_large_total{setting="limit.group.bytes"}': "7x300"},
        {"setting": "limit.group.bytes"},
        "60 requests were refused because groups would hold more bytes than limit.group.bytes allows.",
    ),
    "CoordinatorMetadataLogFailed": Case(
        {"coordinator_metadata_writable": "0x300"}, {"coordinator_metadata_writable": "1x300"}
    ),
    "CoordinatorEventsLost": Case(
        {"coordinator_event_log_lost_total": "0x230 7x70"},
        {"coordinator_event_log_lost_total": "7x300"},
        summary="7 events could not be written to the event log. Groups and commits are not affected.",
    ),
    "CoordinatorSyncFailed": Case(
        {"coordinator_log_syncs_failed_total": "0x230 1x70"}, {"coordinator_log_syncs_failed_total": "1x300"}
    ),
    "CoordinatorDiskSlow": Case(
        slow("coordinator_log_sync_seconds", "0.5", "0+10x300"),
        slow("coordinator_log_sync_seconds", "0.25", "0+10x300"),
        summary="The 99th percentile of fdatasync is 496ms. Commits wait for it.",
    ),
    "CoordinatorLoopBlocked": Case(
        slow("coordinator_loop_lag_seconds", "0.5", "0+10x300"),
        slow("coordinator_loop_lag_seconds", "0.25", "0+10x300"),
        summary="The event loop of the server is 496ms late.",
    ),
    "CoordinatorRepliesParked": Case(
        {"coordinator_parked_replies": "1001x300"},
        {"coordinator_parked_replies": "1000x300"},
        summary="1001 responses wait for the disk.",
    ),
    "CoordinatorRebalancesOften": Case(
        {"coordinator_groups_rebalancing_often": "0x100 1x200"},
        {"coordinator_groups_rebalancing_often": "0x300"},
        summary="1 groups rebalance again and again (in at least 5 of the last 10 minutes).",
    ),
    "CoordinatorMembersExpire": Case(
        {'coordinator_members_expired_total{timeout="session"}': "0+0.1x300"},
        {'coordinator_members_expired_total{timeout="session"}': "0+0.05x300"},
        summary="12 members were removed because of a timeout in ten minutes.",
    ),
    "CoordinatorCommitsFenced": Case(
        {'coordinator_commits_fenced_total{reason="ILLEGAL_GENERATION"}': "0+0.5x300"},
        {
            'coordinator_commits_fenced_total{reason="ILLEGAL_GENERATION"}': "0+0.1x300",
            'coordinator_commits_fenced_total{reason="REBALANCE_IN_PROGRESS"}': "0+1x300",
        },
        {"reason": "ILLEGAL_GENERATION"},
        "The server has refused 30 commits of former members in five minutes with ILLEGAL_GENERATION.",
    ),
    "CoordinatorOffsetsRewound": Case(
        {'coordinator_events_total{event="offsets_rewound"}': "0+0.1x300"},
        {
            'coordinator_events_total{event="offsets_rewound"}': "3x300",
            'coordinator_events_total{event="joined"}': "0+1x300",
        },
        {"event": "offsets_rewound"},
        "Consumers have committed offsets that are earlier than the committed ones 6 times in five minutes.",
    ),
    "CoordinatorRecordsArchived": Case(
        {"coordinator_share_records_archived_total": "0+0.1x300"},
        {"coordinator_share_records_archived_total": "3x300"},
        {},
        "Share groups have given up 6 records in five minutes that were delivered as often as the limit allows.",
    ),
    "CoordinatorDeadLettersNotWritten": Case(
        {'coordinator_share_dead_letters_total{outcome="failed"}': "0+0.1x300"},
        {
            'coordinator_share_dead_letters_total{outcome="failed"}': "3x300",
            'coordinator_share_dead_letters_total{outcome="written"}': "0+0.1x300",
        },
        {},
        "Share groups have given up 6 records in five minutes that could not be written to their dead-letter queues.",
    ),
    "CoordinatorAssignmentsInvalid": Case(
        {'coordinator_invalid_assignments_total{rule="two_members"}': "0x230 3x70"},
        {'coordinator_invalid_assignments_total{rule="two_members"}': "3x300"},
        {"rule": "two_members"},
        "The leader of a classic group has assigned partitions against the rule two_members.",
    ),
    "CoordinatorConnectionsRefused": Case(
        {'coordinator_connections_refused_total{listener="0"}': "0x230 1x70"},
        {'coordinator_connections_refused_total{listener="0"}': "5x300"},
        {"listener": "0"},
    ),
    "CoordinatorMemoryShort": Case(
        {"coordinator_memory_waiting": "3x300"},
        {"coordinator_memory_waiting": "0x300"},
        summary="3 connections wait for memory, because large requests and responses of others take all of it.",
    ),
    "CoordinatorMarkersUndelivered": Case(
        {"coordinator_markers_waiting": "2x300"},
        {"coordinator_markers_waiting": "0x300"},
        summary="2 partitions lack the marker of a transaction that has ended. Readers of committed records cannot pass it.",
    ),
    "CoordinatorTransactionsTimeOut": Case(
        {'coordinator_transactions_ended_total{cause="timeout",outcome="abort"}': "0x230 1x70"},
        {'coordinator_transactions_ended_total{cause="client",outcome="commit"}': "0+9x300"},
        {"cause": "timeout", "outcome": "abort"},
    ),
    "CoordinatorShardWithoutWorker": Case(
        {
            'coordinator_shard_owned{shard="__consumer_offsets-0",instance="first"}': "0x300",
            'coordinator_shard_owned{shard="__consumer_offsets-0",instance="second"}': "0x300",
            'coordinator_shard_owned{shard="__consumer_offsets-1",instance="second"}': "1x300",
        },
        {
            'coordinator_shard_owned{shard="__consumer_offsets-0",instance="first"}': "0x300",
            'coordinator_shard_owned{shard="__consumer_offsets-0",instance="second"}': "1x300",
        },
        summary="1 shards have no worker, so their groups and transactions are not served.",
    ),
    "CoordinatorAppendsUnknown": Case(
        {"coordinator_appends_unknown_total": "0x230 1x70"},
        {"coordinator_appends_unknown_total": "3x300"},
        summary="1 appends to the journal had no certain outcome in five minutes.",
    ),
    "CoordinatorAppendSlow": Case(
        slow("coordinator_append_seconds", "0.5", "0+10x300"),
        slow("coordinator_append_seconds", "0.25", "0+10x300"),
        summary="The 99th percentile of appends to the journal is 496ms. Commits wait for it.",
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


def test_every_alert_has_a_case_with_the_summary_if_it_contains_a_value():
    assert CASES.keys() == RULES.keys()
    for name, rule in RULES.items():
        assert ("{{" in rule["annotations"]["summary"]) == bool(CASES[name].summary), name


def test_promtool_accepts_the_configuration(promtool):
    done = subprocess.run(
        [promtool, "check", "config", str(MONITORING / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_in_its_case_and_only_then(promtool, tmp_path):
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


def fired(promtool: str, recording: Recording, folder: Path) -> set[str]:
    """The alerts that fire at any time of the recording."""
    test = {
        "interval": f"{recording.every_s}s",
        "input_series": recording.series,
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1d]))',
                "eval_time": f"{len(recording.scrapes) * recording.every_s}s",
                "exp_samples": [],
            }
        ],
    }
    file = folder / "recorded.yml"
    rules = {"rule_files": [str(MONITORING / "alerts.yml")], "evaluation_interval": test["interval"], "tests": [test]}
    file.write_text(json.dumps(rules))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    names = set(
        re.findall(r'alertname="(\w+)"', done.stdout + done.stderr)
    )  # promtool expects none, and names those it got
    assert (done.returncode == 0) == (not names), done.stdout + done.stderr
    return names


def test_no_alert_fires_on_a_calm_day_of_500_groups_with_deployments(promtool, tmp_path):
    calm = record(tmp_path / "server", rolling_restart, seconds=CALM_DAY_S, every_s=60)
    assert calm.last("coordinator_rebalances_total") > 2 * CALM_GROUPS
    assert fired(promtool, calm, tmp_path) == set()


def test_a_storm_in_one_group_among_500_calm_ones_raises_the_alerts(promtool, tmp_path):
    stormy = record(tmp_path / "server", storm, seconds=300)
    alerts = {"CoordinatorRebalancesOften", "CoordinatorMembersExpire", "CoordinatorCommitsFenced"}
    assert fired(promtool, stormy, tmp_path) == alerts


def test_four_zombies_that_commit_for_a_minute_raise_an_alert(promtool, tmp_path):
    haunted = record(tmp_path / "server", zombies, seconds=600)
    assert fired(promtool, haunted, tmp_path) == {"CoordinatorCommitsFenced"}


def test_a_server_counts_the_group_in_the_storm_but_no_calm_group_as_rebalancing_often(tmp_path):
    stormy = record(tmp_path / "server", storm, seconds=300)
    assert stormy.last("coordinator_groups") == CALM_GROUPS + 1
    assert stormy.last("coordinator_groups_rebalancing_often") == 1


def test_prometheus_scrapes_a_server_and_evaluates_every_panel_and_rule(coordinator_process, tmp_path):
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
        wait_until_scraped(port.address)
        for panel in BOARD["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"].replace("$__rate_interval", "1m")
                expression = expression.replace("$job", "coordinator").replace("$instance", ".+")
                assert query_api(port.address, "query", query=expression)["status"] == "success", expression
        beats = query_api(port.address, "query", query='coordinator_requests_total{api="Heartbeat"}')["data"]["result"]
        assert {one["metric"]["error"]: one["value"][1] for one in beats} == {"UNKNOWN_MEMBER_ID": "1", "NONE": "0"}
        (group,) = query_api(port.address, "rules")["data"]["groups"]
        assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(RULES, "ok")
        assert [rule["name"] for rule in group["rules"] if rule["state"] != "inactive"] == []
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        port.release()


def wait_until_scraped(address: str) -> None:
    """Waits until there are two samples and the rules have been evaluated."""

    def scraped() -> bool:
        try:
            found = query_api(address, "query", query='count_over_time(up{job="coordinator"}[1m])')["data"]["result"]
            states = {
                rule["health"] for group in query_api(address, "rules")["data"]["groups"] for rule in group["rules"]
            }
        except OSError:
            return False  # not started yet
        return bool(found) and float(found[0]["value"][1]) >= 2 and states == {"ok"}

    wait_until(scraped, "two scrapes")


def query_api(address: str, what: str, **parameters: str) -> Any:
    with urllib.request.urlopen(
        f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}", timeout=10
    ) as got:
        return json.load(got)
