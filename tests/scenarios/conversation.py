"""Plays a story to a server, and writes the answers in the notation of stories."""

import contextlib
import http.client
import json
import random
import re
import struct
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from coordinator.protocol.errors import ErrorCode
from tests.scenarios.functions import FUNCTIONS, read_assignment
from tests.scenarios.notation import BARE, Made, Spread, StoryError, Word, layout, parse, plain
from tests.scenarios.story import Step, Story
from tests.support.record_batch import CONTROL, TRANSACTIONAL, Batch, Record, read_batches
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed, definition, fields_of, snake

QUIET_S = 0.08  # how long "waits" listens for an answer that must not come
ANSWER_WITHIN_S = 20.0
EVENTUALLY_WITHIN_S = 20.0
SHORT_ID = re.compile(r"[A-Za-z0-9_-]{22}")  # the id that a coordinator gives a consumer group member that sends none
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TOPIC_LIST = re.compile(r"(?<=missing: )[^;]+")
NODE_FIELDS = {
    "node_id",
    "replica_id",
    "broker_id",
    "leader_id",
    "controller_id",
    "replica_nodes",
    "isr_nodes",
    "replicas",
}
DAY_MS = 86_400_000
LONG_MESSAGE = 39  # a longer error message is prose, and each server has its own
SORTED_BY_RULE = {
    ("JoinGroup", "members"),
    ("DescribeGroups", "members"),
    ("ConsumerGroupDescribe", "members"),
    ("StreamsGroupDescribe", "members"),
}


class Differs(AssertionError):
    """The server's answer differs from the story's."""


@dataclass(slots=True)
class Broker:
    """A server under test. `restart` kills it, starts it again on its data and returns when it answers.

    `dialects` are the addresses of listeners that speak another dialect; `admin` is the URL of our server's admin HTTP.
    """

    bootstrap: str
    restart: Callable[[], None]
    dialects: dict[str, str] = field(default_factory=dict)
    admin: str = ""


# Returns a server with these settings; a story that restarts its server gets its own, under the story's name.
Brokers = Callable[[dict[str, str], str], Broker]


class Conversation:
    """One run of one story against one server."""

    quiet_s = QUIET_S

    def __init__(self, story: Story, broker: Broker):
        self.story = story
        self.broker = broker
        self.actors: dict[str, Connection] = {}
        self.identity: dict[str, dict[str, Any]] = {}
        self.lets: dict[str, Any] = {}
        self.made: dict[Any, str] = {}
        self.symbols: dict[str, Any] = {}
        self.uuids: dict[str, str] = {}
        self.topic_ids: dict[bytes, str] = {bytes(16): "<0>"}
        self.producers: dict[int, str] = {}
        self.sessions: dict[int, str] = {}
        run = f"{random.randrange(1 << 32):08x}"
        self.real = {name: f"{name}-{run}" for name in [*story.names, *story.topics]}
        self.symbols["<0>"] = bytes(16)
        self.symbols["<5>"] = (5).to_bytes(16, "big")
        self.topic_ids[(5).to_bytes(16, "big")] = "<5>"

    def run(self, rewrite: bool = False) -> dict[int, str]:
        """Returns the answers by the line of their step. Raises Differs if an answer differs, unless rewriting."""
        heard: dict[int, str] = {}
        with ExitStack() as stack:
            stack.callback(self.hang_up)
            self.prepare()
            for step in self.story.steps:
                said = self.perform(step, rewrite)
                if said is None:
                    continue
                own = step.path == self.story.path
                if own:
                    heard[step.line] = said
                if not (rewrite and own) and plain(said) != plain(step.answer or ""):
                    raise Differs(self.difference(step, said))
        return heard

    def difference(self, step: Step, said: str) -> str:
        where = f"{step.path.name}:{step.line}: {step.text}"
        lines = step.path.read_text().splitlines()[step.line : step.line + step.answer_lines]
        expected = "\n".join(line[3:] for line in lines)
        return f"{where}\n--- the story says\n{expected}\n--- the server says\n{said}"

    def hang_up(self) -> None:
        for connection in self.actors.values():
            connection.close()

    # --- the initial state of a story ---

    def prepare(self) -> None:
        with self.connect("story") as link:
            for name, count in self.story.topics.items():
                topic = {"name": self.real[name], "num_partitions": count, "replication_factor": 1}
                link.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
            for name in self.story.topics:
                self.learn_topic(link, name)
            self.learn_node(link)

    def learn_topic(self, link: Connection, name: str) -> None:
        wanted = [{"name": self.real[name]}]

        def made() -> dict[str, Any] | None:
            (topic,) = link.call("Metadata", 12, topics=wanted, allow_auto_topic_creation=False)["topics"]
            has_leaders = all(partition["leader_id"] >= 0 for partition in topic["partitions"])
            return topic if topic["error_code"] == 0 and has_leaders else None

        topic = wait_until(made, f"topic {name}", EVENTUALLY_WITHIN_S)
        assert topic is not None
        wait_until(lambda: self.partitions_serve(link, topic), f"topic {name} to serve", EVENTUALLY_WITHIN_S)
        topic_id = topic.get("topic_id") or uuid.uuid4().bytes  # earlier releases have none
        self.topic_ids[topic_id] = f"<{name}>"
        self.symbols[f"<{name}>"] = topic_id

    @staticmethod
    def partitions_serve(link: Connection, topic: dict[str, Any]) -> bool:
        """Whether all partitions serve: a partition may have a leader that has not taken over yet."""
        wanted = [
            {"partition_index": partition["partition_index"], "timestamp": -1} for partition in topic["partitions"]
        ]
        (answer,) = link.call("ListOffsets", 1, replica_id=-1, topics=[{"name": topic["name"], "partitions": wanted}])[
            "topics"
        ]
        return all(partition["error_code"] == 0 for partition in answer["partitions"])

    def learn_node(self, link: Connection) -> None:
        answer = link.call("Metadata", 12, topics=[])
        (node,) = answer["brokers"]
        self.symbols |= {"<node>": node["node_id"], "<host>": node["host"], "<port>": node["port"]}
        self.symbols["<cluster>"] = answer["cluster_id"]
        (folder,) = link.call("DescribeLogDirs", 4, topics=[])["results"]
        self.symbols["<folder>"] = folder["log_dir"]

    # --- steps ---

    def perform(self, step: Step, rewrite: bool) -> str | None:
        """Performs one step; returns the answer's text, or None for a step without an answer."""
        text = step.text
        if match := re.fullmatch(r"wait (\d+)ms", text):
            self.wait(int(match[1]))
        elif match := re.fullmatch(r"let (\w+) = (.*)", text):
            self.lets[match[1]] = parse(match[2])
            with contextlib.suppress(StoryError):  # answers show a value by its name if it can be evaluated already
                self.evaluate(self.lets[match[1]])
        elif match := re.fullmatch(r"(\w+) closes", text):
            self.actors.pop(match[1]).close()
        elif match := re.fullmatch(r"(\w+) is (.*)", text):
            self.identity[match[1]] = self.evaluate(parse(match[2]))
        elif text == "restart":
            self.broker.restart()
            self.hang_up()
            self.actors.clear()
        elif match := re.fullmatch(r"(\w+) gets(, unordered)?", text):
            return self.hear(match[1], False, bool(match[2]))
        elif match := re.fullmatch(r"POST (\S+) (\{.*\})", text):
            return self.post(match[1], self.evaluate(parse(match[2])))
        elif match := re.fullmatch(r"(\w+) waits", text):
            self.must_wait(match[1], step)
        elif match := re.fullmatch(r"(\w+) sends (.*)", text):
            self.send(match[1], match[2])
        elif match := re.fullmatch(r"(\w+): (.*?)((?:, (?:eventually|unordered))*)", text):
            unordered = "unordered" in match[3]
            if "eventually" in match[3] and not rewrite:
                return self.ask_until(match[1], match[2], unordered, step.answer or "")
            if "eventually" in match[3]:
                time.sleep(2)
            self.send(match[1], match[2])
            return self.hear(match[1], step.answer == "waits", unordered)
        else:
            raise StoryError(f"{self.story.path.name}:{step.line}: cannot read {text!r}")
        return None

    def wait(self, time_ms: int) -> None:
        """Time passes: the clock of our server jumps, timer by timer, and runs on.

        Not after a restart, when the first request of admin HTTP takes as long as a short timeout.
        """
        if self.story.restarts or not self.broker.admin:
            time.sleep(time_ms / 1000)
            return
        for change in ({"mode": "manual"}, {"advance_ms": time_ms}, {"mode": "real"}):
            answer = self.post("/v1/clock", change)
            assert "status: 200" in answer, answer

    def post(self, path: str, body: dict[str, Any]) -> str:
        """A command by admin HTTP; the answer is its JSON, with the status."""
        path = "/".join(self.real.get(part, part) for part in path.split("/"))
        connection = http.client.HTTPConnection(self.broker.admin.removeprefix("http://"), timeout=ANSWER_WITHIN_S)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = {"status": response.status, **json.loads(response.read())}
        return layout(self.texts("", answer))

    def actor(self, name: str) -> Connection:
        if name not in self.actors:
            identity = {"client_id": name, "dialect": None} | self.identity.get(name, {})
            self.actors[name] = self.connect(identity["client_id"], identity["dialect"])
        return self.actors[name]

    def connect(self, client_id: str | None, dialect: str | None = None) -> Connection:
        bootstrap = self.broker.dialects[dialect] if dialect else self.broker.bootstrap
        return Connection(bootstrap, client_id, dialect)

    def send(self, name: str, text: str) -> None:
        link = self.actor(name)
        try:
            if match := re.fullmatch(r"(frame|bytes) (.*)", text):
                data = self.evaluate(parse(match[2]))
                link.send_bytes(struct.pack(">i", len(data)) + data if match[1] == "frame" else data)
                return
            match = re.fullmatch(r"(\w+) v(-?\d+)(?: (0x[0-9a-f]*|\{.*\}))?(?: \+ (0x[0-9a-f]+))?", text)
            if not match:
                raise StoryError(f"{self.story.path.name}: cannot read the request {text!r}")
            api, version, body = match[1], int(match[2]), parse(match[3] or "{}")
            if isinstance(body, bytes):
                link.send_body(api, version, body)
            else:
                values = self.request_values(api, self.evaluate(body))
                link.send(api, version, values, bytes.fromhex((match[4] or "0x")[2:]))
        except ConnectionClosed:
            return  # noticed when the answer is read

    def hear(self, name: str, may_wait: bool, unordered: bool) -> str:
        link = self.actors[name]
        raw = not link.unanswered
        api = "" if raw else link.unanswered[0][0]
        try:
            if raw:
                return "0x" + link.receive_bytes(ANSWER_WITHIN_S).hex()
            answer = link.receive(self.quiet_s if may_wait else ANSWER_WITHIN_S)
        except TimeoutError:
            return "waits" if may_wait else f"(no answer within {ANSWER_WITHIN_S:.0f} s)"
        except ConnectionClosed:
            self.actors.pop(name).close()
            return "closes"
        return self.show(api, answer, unordered)

    def ask_until(self, name: str, text: str, unordered: bool, wanted: str) -> str:
        deadline = time.monotonic() + EVENTUALLY_WITHIN_S
        while True:
            self.send(name, text)
            said = self.hear(name, False, unordered)
            if plain(said) == plain(wanted) or time.monotonic() > deadline:
                return said
            time.sleep(0.05)

    def must_wait(self, name: str, step: Step) -> None:
        link = self.actors[name]
        api = link.unanswered[0][0]
        try:
            answer = link.receive(self.quiet_s)
        except TimeoutError:
            return
        raise Differs(self.difference(step, self.show(api, answer, False)))

    # --- from text to values ---

    def evaluate(self, value: Any) -> Any:
        if isinstance(value, Word):
            return self.word(value.text)
        if isinstance(value, str):
            return self.word(value) if value in self.real else value
        if isinstance(value, list):
            return [self.evaluate(item) for item in value]
        if isinstance(value, dict):
            out: dict[str, Any] = {}
            for key, item in value.items():
                if isinstance(key, Spread):
                    out |= self.evaluate(self.lets[key.name])
                else:
                    out[self.real.get(key, key)] = self.evaluate(item)
            return out
        if isinstance(value, Made):
            made = FUNCTIONS[value.function](*self.evaluate(value.arguments), **self.evaluate(value.named))
            if value.function != "batch":
                self.made[made] = value.text
            return made
        return value

    def word(self, text: str) -> Any:
        if text in self.symbols:
            return self.symbols[text]
        if text in self.real:
            return self.real[text]

        def known(match: re.Match[str]) -> str:
            if match[0] not in self.symbols:
                raise StoryError(f"{self.story.path.name}: {match[0]} stands for nothing yet")
            return str(self.symbols[match[0]])

        return re.sub(r"<\w+>", known, text)

    def request_values(self, api: str, values: dict[str, Any]) -> dict[str, Any]:
        """Replaces words by bytes, and names and keys by real ones, where the definition requires it."""
        schema = definition(api + "Request")
        common = {struct_["name"]: struct_["fields"] for struct_ in schema.get("commonStructs", [])}

        def fit(given: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
            kinds = {snake(one["name"]): one for one in fields}
            out = {}
            for key, value in given.items():
                if key not in kinds:
                    raise StoryError(f"{api} has no field {key}; it has {sorted(kinds)}")
                inner = fields_of(kinds[key]["type"], kinds[key], common)
                if inner and isinstance(value, list):
                    out[key] = [fit(item, inner) for item in value]
                elif inner and value is not None:
                    out[key] = fit(value, inner)
                elif kinds[key]["type"] in ("bytes", "records") and isinstance(value, str):
                    out[key] = value.encode()
                else:
                    out[key] = value
            return out

        return fit(values, schema["fields"])

    # --- from values to text ---

    def show(self, api: str, answer: dict[str, Any], unordered: bool) -> str:
        self.keep_own(api, answer)
        self.conceal(api, answer)
        for key, value in answer.items():
            self.sort(api, key, value, unordered)
        return layout(self.texts("", answer))

    def keep_own(self, api: str, answer: dict[str, Any]) -> None:
        """Reduces lists of everything on the server to what belongs to this story."""
        own = set(self.real.values())
        if api == "ListGroups":
            answer["groups"] = [group for group in answer["groups"] if group["group_id"] in own]
        if api == "Metadata":
            answer["topics"] = [topic for topic in answer["topics"] if topic["name"] in own or topic["error_code"]]
        if api == "ListConfigResources":
            listed = answer["config_resources"]
            answer["config_resources"] = [each for each in listed if each["resource_name"] in own]

    @staticmethod
    def conceal(api: str, answer: dict[str, Any]) -> None:
        """Replaces how far the metadata log has grown, which depends on everything that the server did before."""
        if api == "DescribeQuorum":
            described = [partition for topic in answer["topics"] for partition in topic["partitions"]]
            for partition in described:
                if partition["error_code"] == 0:
                    assert partition["leader_epoch"] >= 0
                    assert partition["high_watermark"] > 0
                    partition |= {"leader_epoch": "<epoch>", "high_watermark": "<offset>"}
                for replica in partition["current_voters"]:
                    assert replica["log_end_offset"] > 0
                    replica["log_end_offset"] = "<offset>"

    def sort(self, api: str, key: str, value: Any, unordered: bool) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                self.sort(api, name, item, unordered)
        elif isinstance(value, list):
            for item in value:
                self.sort(api, "", item, unordered)
            if unordered or (api, key) in SORTED_BY_RULE:
                value.sort(key=self.sort_key)

    def sort_key(self, value: Any) -> str:
        text = repr(value)
        for name, real in self.real.items():
            text = text.replace(real, name)
        return UUID.sub(lambda match: self.uuids.get(match[0], "<new>"), text)

    def texts(self, key: str, value: Any) -> Any:
        """Returns the same structure with its leaves as text."""
        if isinstance(value, dict):
            return {
                name: self.texts(name, item)
                for name, item in value.items()
                if not (name == "throttle_time_ms" and item == 0)
            }
        if isinstance(value, list):
            return [self.texts(key, item) for item in value]
        return self.leaf(key, value)

    def leaf(self, key: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, int):
            return self.number(key, value)
        if isinstance(value, bytes):
            return self.binary(key, value)
        return self.string(key, value)

    def number(self, key: str, value: int) -> str:
        if key == "error_code" or key.endswith("_error_code"):
            return ErrorCode(value).name
        if key in NODE_FIELDS and value == self.symbols["<node>"]:
            return "<node>"
        if key == "port" and value == self.symbols["<port>"]:
            return "<port>"
        if "timestamp" in key or key.endswith("_time_ms"):
            return "<time>" if abs(value - time.time() * 1000) < DAY_MS else str(value)
        if key == "finalized_features_epoch" and value >= 0:
            return "<epoch>"
        if key == "producer_id" and value >= 0:
            return self.producer(value)
        if key == "session_id" and value > 0:
            return self.session(value)
        return str(value)

    def session(self, value: int) -> str:
        if value not in self.sessions:
            symbol = f"<session{len(self.sessions) + 1}>"
            self.sessions[value] = symbol
            self.symbols[symbol] = value
        return self.sessions[value]

    def producer(self, value: int) -> str:
        if value not in self.producers:
            symbol = f"<producer{len(self.producers) + 1}>"
            self.producers[value] = symbol
            self.symbols[symbol] = value
        return self.producers[value]

    def binary(self, key: str, value: bytes) -> Any:
        if key.endswith("topic_id"):
            return self.topic_id(value)
        if key == "records":
            return [self.batch(batch) for batch in read_batches(value)]
        if value in self.made:
            return self.made[value]
        if key.endswith("assignment") and (read := read_assignment(value)) is not None:
            held, version = read
            topics = ", ".join(f"{self.string('', topic)}: {sorted(held[topic])}" for topic in sorted(held))
            return f"assignment({{{topics}}}, v: {version})"
        text = value.decode("ascii", "replace")
        return self.string(key, text) if text.isprintable() and "\ufffd" not in text else "0x" + value.hex()

    def topic_id(self, value: bytes) -> str:
        if value not in self.topic_ids:
            symbol = f"<topic{len(self.topic_ids)}>"
            self.topic_ids[value] = symbol
            self.symbols[symbol] = value
        return self.topic_ids[value]

    def batch(self, batch: Batch) -> str:
        said = f"offset: {batch.base_offset}, epoch: {batch.leader_epoch}"
        if batch.producer_id >= 0:
            said += f", producer: {self.producer(batch.producer_id)}, producer_epoch: {batch.producer_epoch}"
            said += f", sequence: {batch.base_sequence}"
        if batch.attributes & CONTROL:
            (kind,) = struct.unpack_from(">h", batch.records[0].key or b"", 2)
            (epoch,) = struct.unpack_from(">i", batch.values[0], 2)
            return f"marker({said}, {('abort', 'commit')[kind]}, coordinator_epoch: {epoch})"
        if batch.attributes & TRANSACTIONAL:
            said += ", transactional: true"
        return f"batch({said}, [{', '.join(map(self.record, batch.records))}])"

    def record(self, record: Record) -> str:
        """The value, if there is nothing else."""
        value = "null" if record.value is None else self.binary("", record.value)
        if record.key is None and not record.headers:
            return value
        key = "" if record.key is None else f"key: {self.binary('', record.key)}, "
        headers = ", ".join(f"{name.decode()}: {self.binary('', said)}" for name, said in record.headers)
        return f"{{{key}value: {value}, headers: {{{headers}}}}}"

    def string(self, key: str, value: str) -> str:
        if value in self.made:
            return self.made[value]
        if key == "error_message" and len(value) > LONG_MESSAGE:
            return "<text>"
        if key == "host" and value == self.symbols["<host>"]:
            return "<host>"
        if key == "cluster_id" and value == self.symbols["<cluster>"]:
            return "<cluster>"
        if value == self.symbols["<folder>"]:
            return "<folder>"
        for name, real in self.real.items():
            value = value.replace(real, name)
        if key == "status_detail":  # the topics are in the order of a Java map, and their real names are made up
            value = TOPIC_LIST.sub(lambda found: ", ".join(sorted(found[0].split(", "))), value)
        value = UUID.sub(self.uuid, value)
        if key in ("member_id", "leader"):
            value = SHORT_ID.sub(self.uuid, value)
        return value if BARE.fullmatch(value) and value not in ("null", "true", "false") else json.dumps(value)

    def uuid(self, match: re.Match[str]) -> str:
        if match[0] not in self.uuids:
            symbol = f"<{len(self.uuids) + 1}>"
            self.uuids[match[0]] = symbol
            self.symbols[symbol] = match[0]
        return self.uuids[match[0]]
