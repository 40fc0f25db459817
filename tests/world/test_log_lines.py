"""Lines of the server's log, whatever names clients choose."""

import ast
import logging
from pathlib import Path

import pytest

import coordinator
from coordinator.world.log_lines import (
    ARGUMENT_MAX,
    TEXT_MAX,
    TRACEBACK_LINES_MAX,
    KeyValueFormatter,
    OncePerMinute,
    printable,
    record_text,
)

FORGED = 'x"\ntime=2026-01-01T00:00:00.000Z level=error event=forged'
REPLACEMENT = "\ufffd"


def line(text, *arguments, error=None):
    record = logging.LogRecord("coordinator.network.listener", logging.WARNING, "", 0, text, arguments, None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    return KeyValueFormatter().format(record)


def fields(text, *arguments):
    """The line after its time."""
    return line(text, *arguments).partition(" ")[2]


def test_a_record_is_one_line_of_fields():
    assert line("event=closed client=%s count=%d", "rdkafka", 3).startswith("time=20")
    said = fields("event=closed client=%s count=%d share=%s", "rdkafka", 3, 0.5)
    assert said == "level=warning logger=network.listener event=closed client=rdkafka count=3 share=0.5"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", '""'),
        ("two words", '"two words"'),
        ("x event=forged", '"x event=forged"'),
        ("a=b", '"a=b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nb\r\tc", r'"a\nb\r\tc"'),
        ("\x1b[31mred\x07\x7f\x9b", r'"\x1b[31mred\x07\x7f\x9b"'),
        ("\u2028\u2029\u202egnp.exe\u200b", r'"\u2028\u2029\u202egnp.exe\u200b"'),
        ("\ud800", r'"\ud800"'),
        ("größe-中", "größe-中"),
    ],
)
def test_a_name_is_one_word_or_in_quotes_with_escapes(name, shown):
    assert fields("event=closed client=%s host=h", name).endswith(f" event=closed client={shown} host=h")


def test_a_name_cannot_begin_a_line():
    for arguments in [(FORGED,), ([FORGED],), ({"name": FORGED},), (ValueError(FORGED),)]:
        assert "\n" not in line("event=closed client=%s", *arguments)
    assert "\n" not in line("event=closed client=%(client)s", {"client": FORGED})
    assert "\n" not in line(f"text of another library: {FORGED}")


def test_a_name_is_cut_and_its_length_is_known():
    said = fields("event=closed client=%s host=h", REPLACEMENT * 32_760)
    assert said.endswith(f' client="{REPLACEMENT * ARGUMENT_MAX}...(32760 characters)" host=h')
    assert len(fields("event=closed members=%s", ["m" * 1_000] * 1_000)) < ARGUMENT_MAX + 100
    assert len(fields("x" * 100_000)) < TEXT_MAX + 100
    whole = "y" * ARGUMENT_MAX
    assert fields("event=closed client=%s", whole).endswith(f"client={whole}")


def test_values_of_facts_are_json():
    said = fields("event=e final=%s none=%s list=%s", True, None, [1, "a b"])
    assert said.endswith('event=e final=true none=null list=[1, "a b"]')


def test_a_traceback_is_indented_escaped_and_bounded():
    first, *rest = line("event=failed", error=ValueError(FORGED + "\x1b[2J")).split("\n")
    assert first.endswith("event=failed")
    assert rest
    assert all(each.startswith("    ") and each.isprintable() for each in rest)
    said = line("event=failed", error=ValueError("\n".join(["z" * 1_000] * 1_000)))
    assert said.count("\n") <= TRACEBACK_LINES_MAX + 1
    assert "lines are left out" in said
    assert max(map(len, said.split("\n"))) < ARGUMENT_MAX + 100


def test_a_line_of_an_outage_passes_once_a_minute_for_each_reason_and_says_how_many_did_not():
    once = OncePerMinute()

    def passed(at_s, partition, reason, name="overlay.markers"):
        text, arguments = "event=not_read partition=%d reason=%s", (partition, reason)
        line = logging.makeLogRecord({"name": f"coordinator.{name}", "msg": text, "args": arguments, "created": at_s})
        return record_text(line) if once.filter(line) else None

    assert passed(0.0, 1, "refused") == "event=not_read partition=1 reason=refused"
    assert passed(1.0, 2, "refused") is None
    assert passed(1.0, 2, "timeout") == "event=not_read partition=2 reason=timeout"
    assert passed(59.9, 3, "refused") is None
    assert passed(60.0, 4, "refused") == "event=not_read partition=4 reason=refused left_out=2"
    assert passed(130.0, 5, "timeout") == "event=not_read partition=5 reason=timeout"
    for partition in range(2):  # what does not try again says each partition
        assert passed(130.0, partition, "damaged", "topics.partition") is not None


def test_a_bug_that_comes_again_and_again_is_a_line_a_minute_whatever_else_it_names():
    once = OncePerMinute()

    def passes(partition, error):
        line = logging.makeLogRecord({
            "name": "coordinator.overlay.markers", "msg": "event=not_read partition=%d", "args": (partition,),
            "exc_info": (type(error), error, None), "created": 0.0,
        })  # fmt: skip
        return once.filter(line)

    assert [passes(1, KeyError("a")), passes(2, KeyError("a")), passes(1, KeyError("b"))] == [True, False, True]


def test_what_a_worker_has_taken_is_a_line_each_whatever_else_is_left_out():
    once, line = OncePerMinute(), "event=shard_taken log=%s records=%d ms=%d"
    name = "coordinator.cluster.workers.ownership"
    records = [logging.makeLogRecord({"name": name, "msg": line, "args": (log, 0, 7)}) for log in ("a-1", "a-2")]
    assert all(map(once.filter, records))


def test_printable_text_is_itself():
    assert printable("größe 中 ok") == "größe 中 ok"


def test_no_log_call_puts_quotes_around_an_argument_or_formats_one_itself():
    """The formatter sees only what is passed as an argument."""
    loggers = {"_log", "self._logger", "self._once"}
    allowed = {"_log_fact"}  # its text consists of the server's own names
    for path in Path(coordinator.__file__).parent.rglob("*.py"):
        source = path.read_text()
        if not any(f"{name}." in source for name in loggers):
            continue  # Parsing takes much longer.
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name in allowed:
                continue
            for call in ast.walk(function):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                if ast.unparse(call.func.value) not in loggers:
                    continue
                where = f"{path.name}:{call.lineno}: {ast.unparse(call)[:80]}"
                for text in call.args:
                    assert not isinstance(text, ast.JoinedStr), where
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        assert '"%s' not in text.value, where
                        assert "%r" not in text.value, where
