"""The document about access control has the table that the command prints."""

import re
from pathlib import Path

from coordinator import cli
from tests.access.cases import CASES
from tests.access.table import matrix_users
from tests.support.server_process import REPOSITORY

PAGE: Path = REPOSITORY / "docs" / "access-control.md"


def test_the_document_has_the_table_of_the_command(capsys):
    assert cli.main(["protocol", "access"]) == 0
    table = capsys.readouterr().out
    assert table.count("\n") > 50
    assert PAGE.read_text().endswith(table)


def test_the_document_has_the_numbers_of_the_table():
    page = PAGE.read_text()
    assert f"each request by {len(matrix_users())} users" in page
    (cases,) = re.findall(r"about (\d+) requests about several resources", page)
    assert abs(int(cases) - len(CASES)) < 10
