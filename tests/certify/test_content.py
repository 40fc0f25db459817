"""The records of a file of the user's."""

import json
from pathlib import Path

import pytest

from coordinator import cli
from coordinator_testing.certify.content import Content, Template, WrongInput, read_input


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_value_says_which_record_it_is():
    content = Content()
    assert content.make(3, 17) == (b"17", b"3:17")
    assert content.record_of(b"3:17") == (3, 17)
    assert content.record_of(b"something else") is content.record_of(None) is None


def test_the_lines_of_a_file_come_again_and_again(tmp_path):
    templates = read_input(
        write(tmp_path, "orders.txt", "a\tfirst {partition}/{number}\n\nsecond {number} of {partition}\n")
    )
    content = Content(templates)
    assert [content.make(2, number) for number in (1, 2, 3)] == [
        (b"a", b"first 2/1"), (None, b"second 2 of 2"), (b"a", b"first 2/3"),
    ]  # fmt: skip
    assert content.record_of(b"second 2 of 2") == (2, 2)


def test_json_holds_text_json_and_bytes(tmp_path):
    rows = [{"key": "k", "value": "text"}, {"value": {"id": "{partition}-{number}"}}, {"value_base64": "AAE="}]
    path = write(tmp_path, "orders.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_input(path) == [
        Template(b"k", b"text"), Template(None, b'{"id":"{partition}-{number}"}'), Template(None, b"\0\1"),
    ]  # fmt: skip


def test_values_that_are_alike_say_nothing():
    content = Content([Template(None, b"same")])
    assert content.make(0, 1) == (None, b"same")
    assert (content.is_distinct, content.record_of(b"same")) == (False, None)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.txt", "\n", "it holds no record"),
        ("a.json", "[]", "line 1: a record is an object"),
        ("a.json", "\n{", "line 2: "),
        ("a.json", '{"key": 1}', "line 1: a record has either value or value_base64"),
        ("a.json", '{"value": 1, "topic": "b"}', "line 1: a record is an object"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_line(tmp_path, name, text, problem):
    with pytest.raises(WrongInput, match=f"{name}: {problem}"):
        read_input(write(tmp_path, name, text))


def test_records_that_are_alike_need_a_testimony_that_names_offsets(tmp_path, capsys):
    path = write(tmp_path, "orders.txt", "same")
    assert cli.main(["certify", "--protocol", "classic", "--input", str(path), "true"]) == 2
    assert "values do not tell records apart" in capsys.readouterr().err
