"""The project as a whole: it is self-contained, its map is true, and the documents show what exists."""

import ast
import asyncio
import re
import subprocess
import tokenize
from pathlib import Path

import click
import pytest

import coordinator
from coordinator import cli, requests
from coordinator.api.declaration import Api, supported_apis
from tests.support.loop import Loop

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "coordinator"
PACKAGES = [
    PACKAGE,
    *(REPOSITORY / name for name in ("coordinator_lab", "coordinator_testing", "pyspark_coordinator_log")),
]


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in package.rglob("*.py"))


def tracked() -> list[Path]:
    """The files of the project: what git would commit, or everything outside hidden and built folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [REPOSITORY / name for name in listed.stdout.decode().split("\0") if name]
    else:
        built = {".venv", "data", "build", "dist", "__pycache__"}
        paths = [path for path in REPOSITORY.rglob("*") if not built & set(path.relative_to(REPOSITORY).parts)]
    return [path for path in paths if path.is_file()]


def texts(*endings: str) -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        if not endings or path.suffix in endings:
            content = path.read_bytes()
            if b"\0" not in content:
                found.append((path.relative_to(REPOSITORY), content.decode("utf-8")))
    return found


def test_no_file_names_a_package_index_or_a_path_of_one_machine():
    index = "|".join(["py" + r"pi\.org", "python" + "hosted", r"registry\." + "npmjs"])
    machine = r"(?<![\w.])/(?:" + "|".join(["wo" + "rk", "ho" + "me", "ro" + "ot", "Us" + "ers"]) + r")/\w"
    for path, text in texts():
        assert not re.search(index, text), f"{path} names a package index"
        assert not re.search(machine, text), f"{path} names a path of one machine"


def test_what_a_command_has_left_behind_is_no_file_of_the_project():
    """Files in the top folder are known by name; elsewhere only programs of containers and of CI have no ending."""
    names = [path.relative_to(REPOSITORY) for path in tracked()]
    top = {str(path) for path in names if len(path.parts) == 1 and path.suffix not in {".md", ".toml", ".yml"}}
    assert top <= {".dockerignore", ".gitignore", "Dockerfile", "LICENSE", "MANIFEST.in", "Makefile", "setup.py"}
    assert {path.parts[0] for path in names if len(path.parts) > 1 and not path.suffix} <= {".ci", "container"}


def test_nothing_outside_the_repository_is_used():
    outside = "../" + "shared"
    assert [path for path, text in texts() if outside in text] == []


def test_no_promise_is_left_for_later():
    words = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "H" + "ACK"]) + r")\b")
    assert [path for path, text in texts(".py", ".md", ".yaml", ".toml") if words.search(text)] == []


def test_no_thread_of_the_tests_can_keep_their_process_from_ending():
    """A thread that hangs in a client library would: so each is a daemon, of tests.support.background or by itself."""
    starts = re.compile(r"\bthreading\.Thread\((?!(?:[^()]|\([^()]*\))*daemon=True)")
    assert [path for path, text in texts(".py") if "tests" in path.parts and starts.search(text)] == []


def test_every_layer_of_the_map_exists_and_every_package_is_on_the_map():
    assert coordinator.__doc__ is not None
    listed = re.findall(r"^    (\w+) {2,}\S", coordinator.__doc__.partition("The packages")[2], re.MULTILINE)
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(listed) == there - {"__init__", "__main__"}


def test_the_map_is_in_the_order_that_is_enforced():
    import tomllib

    assert coordinator.__doc__ is not None
    listed = re.findall(r"^    (\w+) {2,}\S", coordinator.__doc__.partition("The packages")[2], re.MULTILINE)
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["coordinator"])
    enforced = [name for layer in layers for name in re.split(r" [|:] ", layer)]
    assert [name for name in listed if name in enforced] == enforced


def test_every_file_of_requests_declares_its_api():
    files = {path.stem for path in (PACKAGE / "requests").glob("*.py")} - {"__init__"}
    apis = supported_apis(requests)
    assert len(apis) == len(files)
    for api in apis.values():
        assert isinstance(api, Api)
        assert re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower() in files


def test_the_documents_list_every_api_and_its_versions():
    page = (REPOSITORY / "docs" / "protocol.md").read_text()
    rows = re.findall(r"\| ([A-Z]\w+) \| (\d+)(?:-(\d+))? (?=\|)", page)
    listed = {name: (int(low), int(high or low)) for name, low, high in rows}
    assert listed == {api.name: tuple(api.versions) for api in supported_apis(requests).values()}


def test_every_module_says_what_it_is_for():
    before = {tokenize.ENCODING, tokenize.COMMENT, tokenize.NL}
    for path in modules():
        with path.open("rb") as file:
            first = next(token for token in tokenize.tokenize(file.readline) if token.type not in before)
        said = first.type in {tokenize.STRING, tokenize.ENDMARKER}
        assert said, f"{path.relative_to(REPOSITORY)} opens without a word"


def test_nothing_is_swallowed():
    """`except Exception: pass` hides a bug; so does a bare except."""
    for path in modules():
        source = path.read_text(encoding="utf-8")
        if not re.search(r"\bexcept\s*(:|(Base)?Exception\b)", source):
            continue  # Parsing takes much longer.
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or (isinstance(node.type, ast.Name) and "Exception" in node.type.id[-9:])
                silent = all(isinstance(each, ast.Pass) for each in node.body)
                assert node.type is not None, f"{path}:{node.lineno}"
                assert not (broad and silent and node.type.id in {"Exception", "BaseException"}), (
                    f"{path}:{node.lineno}"
                )


@pytest.mark.parametrize("name", ["serve.txt", "image.txt", "dev.txt", "example.txt"])
def test_every_dependency_is_pinned_with_hashes(name):
    requirements = (REPOSITORY / "requirements" / name).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in requirements if line.strip() and not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"\S+==\S+ ", line), line
        assert "--hash=sha256:" in line, line


def test_every_dependency_of_the_server_is_imported_by_it():
    imported = {
        "yaml": "PyYAML",
        "google_crc32c": "google-crc32c",
        "re2": "google-re2",
        "prometheus_client": "prometheus-client",
        "jwt": "pyjwt[crypto]",
    }
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    import tomllib

    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wanted = {re.split(r"[><=]", line)[0] for line in settings["project"]["dependencies"]}
    found = set(re.findall(r"(?:^|\s)(?:from|import) (\w+)", source)) | set(
        re.findall(r'import_module, "(\w+)"', source)
    )
    assert wanted <= {imported.get(name, name) for name in found}


def documents() -> dict[str, str]:
    """The text of the README and every page of docs/, by name."""
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    return {page.name: page.read_text() for page in pages}


def shown_commands(text: str) -> list[str]:
    """The command lines in fenced blocks (and in indented ones), without comments, redirections and pipes."""
    lines = re.findall(r"^ *((?:make|coordinator) [^#\n]*)", text, re.MULTILINE)
    return [re.split(r" (?:\d?>+|&|\|) ?", line)[0].strip() for line in lines if not line.startswith("coordinator: ")]


def parsed(words: list[str]) -> click.Context:
    """The context of the command that these words call. Raises click.UsageError if they are wrong."""
    command, context = cli.coordinator, None
    while isinstance(command, click.Group):
        context = command.make_context(command.name, words, parent=context)
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    return command.make_context(command.name, words, parent=context)


def test_the_commands_that_the_documents_show_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    fenced = {
        name: "\n".join(re.findall(r"^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        for name, text in documents().items()
    }
    commands = [(name, command) for name, text in fenced.items() for command in shown_commands(text)]
    assert {("README.md", "make serve"), ("README.md", "make test")} <= set(commands)
    for name, command in commands:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE), (name, command)
        else:
            words = re.sub(r"\[[^\]]*\]\.*", "", command).split()[1:]
            assert parsed(words).params is not None, (name, command)


def test_every_link_between_documents_leads_somewhere():
    for name, text in documents().items():
        folder = REPOSITORY if name in {"README.md", "CONTRIBUTING.md"} else REPOSITORY / "docs"
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)", text):
            page = folder / target if target else folder / name
            assert page.exists(), f"{name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{name}: {target}#{anchor}"


def test_every_module_that_the_architecture_names_exists():
    named = re.findall(r"`([a-z_]+/(?:[a-z_]+/)*(?:[a-z_]+\.py)?)`", documents()["architecture.md"])
    assert len(named) > 20
    assert [name for name in named if not (PACKAGE / name).exists() and not (REPOSITORY / name).exists()] == []


def test_every_code_block_of_a_document_names_its_language():
    for name, text in documents().items():
        openings = re.findall(r"^ *```(.*)$", text, re.MULTILINE)[::2]
        assert all(openings), f"{name}: {openings}"


def test_settings_that_the_documents_name_exist():
    from coordinator.config.dynamic_configs import DYNAMIC
    from coordinator.config.features import SUPPORTED
    from coordinator.config.settings import SETTINGS, STRUCTURED

    known = SETTINGS.keys() | STRUCTURED.keys() | DYNAMIC.keys() | SUPPORTED.keys()
    for name, text in documents().items():
        named = set(re.findall(r"`((?:group|offsets?|limit|admin|log|max|connections|socket)\.[a-z.]+[a-z])`", text))
        assert named <= known, name


def test_every_setting_is_read_by_the_code_that_it_is_for():
    from coordinator.config.settings import SETTINGS
    from coordinator.groups.group_configs import GROUP_CONFIGS

    elsewhere = [path for path in PACKAGE.rglob("*.py") if path.name != "settings.py" and path.parent.name != "config"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in elsewhere)
    words = set(re.findall(r"\w+", source))
    # They are found by the names of the settings of single groups.
    words |= {field for row in GROUP_CONFIGS.values() for field in row.fields}
    # It decides itself which mechanisms a listener has.
    words |= set(re.findall(r"\)\.(\w+)", (PACKAGE / "config" / "security.py").read_text(encoding="utf-8")))
    # It decides itself at which listener workers ask each other.
    words |= set(re.findall(r"shared\.(\w+)", (PACKAGE / "config" / "inter_broker.py").read_text(encoding="utf-8")))
    assert [name for name, setting in SETTINGS.items() if setting.field_name not in words] == []


def test_a_server_that_a_test_leaves_open_is_an_error_and_closes_with_the_loop():
    loop = Loop()
    loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
    with pytest.raises(ResourceWarning, match="unclosed resource <TCPServer"):
        loop.close()
    assert loop.is_closed()
