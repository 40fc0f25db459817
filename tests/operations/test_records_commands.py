"""`coordinator topics produce` and `consume` on this server and, if there are Java and Maven, on Kafka."""

import json
import os
import uuid

import pytest
from confluent_kafka import Producer

from coordinator import cli
from tests.support.waiting import WITHIN_S


@pytest.fixture
def topic():
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def run(bootstrap, capfd, monkeypatch):
    """Runs a command with this text as its standard input; returns what it prints."""

    def run(*arguments, text="", expect=0):
        reader, writer = os.pipe()
        os.write(writer, text.encode())
        os.close(writer)
        before = os.dup(0)
        os.dup2(reader, 0)
        try:
            code = cli.main(["topics", *arguments, "--bootstrap", bootstrap])
        finally:
            os.dup2(before, 0)
            os.close(before)
            os.close(reader)
        printed = capfd.readouterr()
        assert code == expect, printed.err
        return printed.err if expect else printed.out

    return run


def test_lines_that_are_produced_are_consumed_with_their_keys(run, topic):
    run("create", topic, "--partitions", "3")
    run("produce", topic, "--key-separator", ":", text="a:1\nb:2\na:3")
    printed = run("consume", topic, "--from-beginning", "--until-end", "--key-separator", "=").split()
    assert sorted(printed) == ["a=1", "a=3", "b=2"]
    assert printed.index("a=1") < printed.index("a=3")


def test_what_is_consumed_as_json_can_be_produced_elsewhere(run, topic):
    records = [
        {"key": "k", "value": "v", "headers": {"h": "x", "none": None}},
        {"key": None, "value": None, "headers": {}},
        {"key": {"base64": "/w=="}, "value": {"base64": "AP8="}, "headers": {}},
    ]
    run("produce", topic, "--json", text="\n".join(map(json.dumps, records)))
    printed = run("consume", topic, "--from-beginning", "--until-end", "--json")
    run("produce", f"{topic}-copy", "--json", text=printed)
    copied = run("consume", f"{topic}-copy", "--from-beginning", "--until-end", "--json").splitlines()
    assert [{name: json.loads(line)[name] for name in records[0]} for line in copied] == records


def test_a_group_goes_on_where_it_stopped(run, topic):
    run("produce", topic, text="1\n2\n3\n")
    assert run("consume", topic, "--group", topic, "--from-beginning", "--max", "2").split() == ["1", "2"]
    run("produce", topic, text="4\n")
    assert run("consume", topic, "--group", topic, "--from-beginning", "--until-end").split() == ["3", "4"]


def test_records_of_aborted_transactions_are_not_printed(run, bootstrap, topic):
    run("create", topic)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WITHIN_S)
    for value, ends in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(WITHIN_S)
        ends(WITHIN_S)
    assert run("consume", topic, "--from-beginning", "--until-end") == "yes\n"


def test_a_line_that_is_no_record_is_named_and_those_of_earlier_batches_are_counted(run, topic):
    refused = run("produce", topic, "--json", text='{"value": "1"}\n[2]\n', expect=1)
    assert refused == "coordinator: line 2: a record is a JSON object; 0 records were sent before\n"
    assert "there is no ':'" in run("produce", topic, "--key-separator", ":", text="abc\n", expect=1)
    assert "has no partition 7" in run("produce", topic, "--partition", "7", text="abc\n", expect=1)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("consume", f"{topic}-absent", "--until-end", expect=1)


def test_the_configs_and_partitions_of_a_topic_are_altered(run, topic):
    run("create", topic, "--config", "retention.ms=1000")
    run("alter", topic, "--config", "max.message.bytes=2000", "--unset", "retention.ms", "--partitions", "3")
    [described] = json.loads(run("describe", topic, "--json"))["topics"]
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert len(described["partitions"]) == 3
    assert "one of" in run("alter", topic, expect=2).lower()
    assert f"cannot alter topic {topic}: INVALID_CONFIG" in run("alter", topic, "--config", "retention.ms=x", expect=1)


def test_a_key_has_the_partition_that_other_clients_choose_for_it(run, bootstrap, topic):
    keys = ["k" * size + str(size) for size in range(40)]
    run("create", topic, "--partitions", "7")
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(topic, "librdkafka", key)
    producer.flush(WITHIN_S)
    run("produce", topic, "--key-separator", ":", text="".join(f"{key}:ours\n" for key in keys))
    chosen = {}
    for line in run("consume", topic, "--from-beginning", "--until-end", "--json").splitlines():
        record = json.loads(line)
        chosen.setdefault(record["value"], {})[record["key"]] = record["partition"]
    assert chosen["ours"] == chosen["librdkafka"]
    assert len(set(chosen["ours"].values())) == 7
