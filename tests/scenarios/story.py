"""Conversations with a coordinator as text: the format of a story file, and how it is read and rewritten.

A story is a file. Its first comment states a promise; requests with their complete answers follow:

    # A new member is given an id first and joins with it (KIP-394).
    names: g
    let join = {group_id: g, session_timeout_ms: 30000, protocol_type: consumer,
                protocols: [{name: range, metadata: subscription(t)}]}

    a: JoinGroup v4 {...join}
       {error_code: MEMBER_ID_REQUIRED, generation_id: -1, ...}

`a` is an actor: a connection whose client id is its name. The indented text below a request is the answer:

    {...}     every field of the version (throttle_time_ms and tagged fields only if they differ from the default)
    waits     the server holds the answer back; `a gets` receives it later, `a waits` asserts that it is still held back
    closes    the server closes the connection without an answer
    0x...     the raw answer, where the request was raw too

Requests are `a: Api vN {...}`, with `+ 0x00` for surplus bytes after the body; `a: Api vN 0x...` with a body as raw
bytes; `a: frame 0x...` for a whole frame without its length; `a: bytes 0x...` for arbitrary bytes. `a sends ...` does not
wait for the answer. After a request, `, eventually` repeats it until the answer is the one written (for a change that
takes time to spread), and `, unordered` sorts the lists of the answer (in Kafka their order is that of a hash map). The
members in answers of JoinGroup, DescribeGroups, ConsumerGroupDescribe and StreamsGroupDescribe are always sorted.

`POST /path {...}` is a request to our server's admin HTTP, answered with the status and the fields of its JSON.

Other lines: `wait 500ms`; `a closes`; `a is {client_id: null, dialect: kip-792}` before a's first request; `restart`,
which is SIGKILL and a new start on the same data.

At the top: `after: other` starts where the story other.txt ends, with its names, lets, actors and symbols; `names:` lists
groups and topics that get a fresh real name in each run; `topics: t=2` creates topics first; `set: key=value` requires a
server with that configuration in addition to conftest.py's (with `emulate`, the Kafka is of that release); `only: coordinator`
marks an extension that Kafka lacks.

Symbols stand for values that differ between runs. `<1>` is a uuid (or the short id that a coordinator makes), in order of
appearance, so `a-<1>` is a member id derived from client id `a`; `<t>` is the id of topic t; then `<node>`, `<host>`, `<port>`,
`<cluster>`, `<time>`, `<producer1>`, `<folder>` (the data folder's path) and `<text>`, a long error message.

The steps are Kafka's own requests rather than a library of helpers, so anybody who knows Kafka can read them.
"""

from dataclasses import dataclass, field
from pathlib import Path

from tests.scenarios.notation import StoryError


@dataclass(slots=True)
class Step:
    """A line with an action, and the answer written below it (None: no answer)."""

    line: int
    text: str
    answer: str | None = None
    answer_lines: int = 0
    path: Path = Path()


@dataclass(slots=True)
class Story:
    """A parsed file. `lines` are kept so that rewriting touches answers only."""

    path: Path
    lines: list[str]
    promise: str
    names: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    only: str | None = None
    steps: list[Step] = field(default_factory=list)

    @property
    def restarts(self) -> bool:
        return any(step.text == "restart" for step in self.steps)

    @property
    def is_timed(self) -> bool:
        return any(step.text.startswith("wait ") for step in self.steps)

    def continue_from(self, earlier: "Story") -> None:
        self.names += earlier.names
        self.topics |= earlier.topics
        self.settings |= earlier.settings
        self.steps += earlier.steps


def read_story(path: Path) -> Story:
    lines = path.read_text().splitlines()
    if not lines or not lines[0].startswith("# "):
        raise StoryError(f"{path.name} does not start with its promise")
    story = Story(path, lines, lines[0].removeprefix("# "))
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            raise StoryError(f"{path.name}:{number}: an answer without a request")
        text = line.rstrip()
        while text.count("{") + text.count("[") > text.count("}") + text.count("]"):
            text += " " + lines[at].strip()
            at += 1
        word, _, rest = text.partition(": ")
        if word == "names":
            story.names += rest.split()
        elif word == "topics":
            story.topics |= {name: int(count) for name, count in (item.split("=") for item in rest.split())}
        elif word == "set":
            story.settings |= dict(item.split("=", 1) for item in rest.split())
        elif word == "only":
            story.only = rest
        elif word == "after":
            story.continue_from(read_story(path.with_name(rest + ".txt")))
        else:
            step = Step(at, text, path=path)
            began = at
            while at < len(lines) and lines[at][:1].isspace() and lines[at].strip():
                at += 1
            if at > began:
                step.answer = " ".join(part.strip() for part in lines[began:at])
                step.answer_lines = at - began
            story.steps.append(step)
    return story


def rewritten(story: Story, answers: dict[int, str]) -> str:
    """The file with the given answers: last line of the step -> text without indentation."""
    out = list(story.lines)
    own = [step for step in story.steps if step.path == story.path]
    for step in sorted(own, key=lambda step: -step.line):
        if step.line in answers:
            fresh = ["   " + part for part in answers[step.line].splitlines()]
            out[step.line : step.line + step.answer_lines] = fresh
    return "\n".join(out) + "\n"
