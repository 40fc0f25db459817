"""Retired words, parsed from the glossary in docs/architecture.md, occur nowhere in the project.

A word of scope `everywhere` may occur neither in an identifier nor in prose: docstrings, comments, setting descriptions, the
README and the pages of docs/. A word of scope `name` may not be the whole name of a class, function, argument, variable or
attribute; a word of scope `module` may not be the name of a module.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
GLOSSARY = REPOSITORY / "docs" / "architecture.md"
SCOPES = ("everywhere", "name", "module")
Found = tuple[int, str]
"""Line and retired word."""


class Retired(NamedTuple):
    """Retired words by scope."""

    everywhere: frozenset[str]
    name: frozenset[str]
    module: frozenset[str]


def table(page: str) -> str:
    """The rows of the table of retired words."""
    return page.partition("| retired | scope | use |\n")[2].partition("\n\n")[0]


def parse(page: str) -> Retired:
    words: dict[str, set[str]] = {scope: set() for scope in SCOPES}
    for row in table(page).splitlines()[1:]:
        retired, scope, term = (cell.strip() for cell in row.strip("|").split("|"))
        assert term, row
        words[scope].update(word.strip() for word in retired.split(","))
    return Retired(*(frozenset(words[scope]) for scope in SCOPES))


RETIRED = parse(GLOSSARY.read_text())


def parts(name: str) -> list[str]:
    """The words of an identifier: of `snake_case` and of `CamelCase`."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def in_name(name: str, retired: Retired) -> list[str]:
    return [part for part in parts(name) if part in retired.everywhere] + [name] * (name in retired.name)


def in_prose(text: str, retired: Retired) -> Iterator[Found]:
    """Offenders in a text, outside of `code`: names of the outside world, such as a column's, are not ours to choose."""
    for number, line in enumerate(re.sub(r"`[^`\n]*`", "", text).splitlines(), 1):
        for word in re.findall(r"[a-z]+", line.lower()):
            if word in retired.everywhere:
                yield number, word


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a module defines or uses, with its line; imported modules by the last part of their name."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg() | ast.keyword():
                yield node.lineno, node.arg or ""
            case ast.Name():
                yield node.lineno, node.id
            case ast.Attribute(value=ast.Name(id="ast")):
                continue  # a name of the standard library
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.alias():
                yield node.lineno, node.asname or node.name.rpartition(".")[2]
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                yield node.lineno, node.name or ""
            case ast.MatchMapping():
                yield node.lineno, node.rest or ""
            case ast.MatchClass():
                for each in node.kwd_attrs:
                    yield node.lineno, each


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that stand alone: docstrings, also those below an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def in_python(source: str, retired: Retired = RETIRED) -> list[Found]:
    words = {*parts(source), *re.findall(r"[a-z]+", source.lower())}
    if not words & retired.everywhere and not retired.name & {*re.findall(r"\w+", source)}:
        return []  # Parsing takes ten times as long.
    tree = ast.parse(source)
    found = [(line, word) for line, name in names(tree) for word in in_name(name, retired)]
    for first, text in (*docstrings(tree), *comments(source)):
        found += [(first + line - 1, word) for line, word in in_prose(text, retired)]
    return sorted(set(found))


def in_page(text: str, retired: Retired = RETIRED) -> list[Found]:
    """The offenders of a document; the table of retired words itself is left out, its lines are not."""
    rows = table(text)
    return list(in_prose(text.replace(rows, "\n" * rows.count("\n")) if rows else text, retired))


def in_comments(text: str, retired: Retired = RETIRED) -> list[Found]:
    """The offenders of a file whose comments begin with `#`."""
    lines = enumerate(text.splitlines(), 1)
    return [
        (number, word) for number, line in lines if "#" in line for _, word in in_prose(line.partition("#")[2], retired)
    ]


def files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns],
        cwd=REPOSITORY, capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        paths = {REPOSITORY / name for name in listed.stdout.decode().split("\0") if name}
    else:
        paths = {path for pattern in patterns for path in REPOSITORY.glob(f"**/{pattern}")}
    return sorted(path for path in paths if path.is_file() and ".venv" not in path.parts)


def offenders(paths: list[Path], search) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{line}: {word}"
        for path in paths
        for line, word in search(path.read_text(encoding="utf-8"))
    ]


def test_no_retired_word_is_in_a_python_file():
    found = offenders(files("*.py"), in_python)
    assert not found, "\n".join(found)


def test_no_module_has_a_retired_name():
    names = [path for path in files("*.py") if path.stem in RETIRED.module | RETIRED.everywhere | RETIRED.name]
    parted = [path for path in files("*.py") if set(parts(path.stem)) & RETIRED.everywhere]
    assert names + parted == []


def test_no_retired_word_is_in_a_document():
    found = offenders(files("*.md"), in_page)
    assert not found, "\n".join(found)


def test_no_retired_word_is_in_the_comments_of_scenarios_and_configurations():
    found = offenders(
        files("tests/scenarios/*.txt", "*.yaml", "*.yml", "*.toml", "Makefile", "Dockerfile"), in_comments
    )
    assert not found, "\n".join(found)


def test_no_retired_word_is_in_the_text_of_a_setting():
    from coordinator.config.settings import SETTINGS, STRUCTURED

    settings = {**SETTINGS, **STRUCTURED}
    assert [name for name, each in settings.items() if any(in_prose(str(each), RETIRED))] == []


# --- the checks themselves can fail -----------------------------------------------------------------------------------

PLANTED = Retired(frozenset({"told", "asker"}), frozenset({"Change", "meant"}), frozenset({"words"}))


def test_every_term_that_replaces_a_name_exists():
    """The glossary names real things: classes, functions, arguments, attributes or modules of the package."""
    package = files("coordinator*/*.py", "pyspark_coordinator_log/*.py")
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in table(GLOSSARY.read_text()).splitlines()[1:]
    ]
    terms = {term.strip() for _, scope, use in rows if scope != "everywhere" for term in use.split(",")}
    assert len(terms) > 30
    missing = terms - {path.stem for path in package}
    for path in package:
        source = path.read_text(encoding="utf-8")
        if missing & {*re.findall(r"\w+", source)}:
            missing -= {name for _, name in names(ast.parse(source))}
    assert missing == set()


def test_the_glossary_is_read():
    assert {"told", "tells", "asker"} <= RETIRED.everywhere
    assert "Change" in RETIRED.name
    assert "words" in RETIRED.module


@pytest.mark.parametrize(
    "source",
    [
        "class Told: ...",
        "def was_told(): ...",
        "def f(asker): ...",
        "f(asker=1)",
        "x.told = 1",
        "x.meant",
        "from a import Change",
        "class Change: ...",
        '"""Somebody is told."""',
        'def f():\n    """First.\n\n    Told again.\n    """',
        "x = 1\n'What x was told.'",
        "x = 1  # as told",
        "match x:\n    case told: ...",
    ],
)
def test_a_planted_word_is_found_in_python(source):
    assert in_python(source, PLANTED)


@pytest.mark.parametrize(
    "source",
    ["def change(): ...", "x.change", '"""A change is meant."""', "x = 'told'", "untold = 1", "# words"],
)
def test_ordinary_english_is_not_taken_for_a_retired_name(source):
    assert in_python(source, PLANTED) == []


def test_a_planted_word_is_found_in_a_document_and_in_a_comment_of_a_scenario():
    page = "A line.\n\n| retired | scope | use |\n|---|---|---|\n| told | everywhere | report |\n\nIt is told.\n"
    assert in_page(page, PLANTED) == [(7, "told")]
    assert in_comments("# It is told.\na: Told v1 {}\nb  # asker", PLANTED) == [(1, "told"), (3, "asker")]
