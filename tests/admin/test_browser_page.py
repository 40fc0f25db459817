"""Browsers get the page and programs get JSON, at the same address."""

import httpx
import pytest

from coordinator.page.files import FOLDER, text_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def address(coordinator_process):
    return coordinator_process().admin


def test_a_browser_gets_the_page_and_a_program_the_list_of_endpoints(address):
    shown = httpx.get(f"{address}/?group=a%2Fb", headers=BROWSER)
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert shown.text == text_of("index.html")
    for headers in ({}, {"Accept": "application/json"}):
        listed = httpx.get(f"{address}/", headers=headers).json()
        assert ("GET", "/page/{name}") in {(each["method"], each["path"]) for each in listed["paths"]}


def test_every_file_of_the_page_has_its_type_and_a_policy_that_lets_it_load_its_own_files_only(address):
    types = {
        "css": "text/css",
        "html": "text/html",
        "js": "text/javascript",
        "svg": "image/svg+xml",
        "txt": "text/plain",
    }
    for path in FOLDER.iterdir():
        got = httpx.get(f"{address}/page/{path.name}")
        assert got.headers["content-type"] == f"{types[path.suffix[1:]]}; charset=utf-8"
        assert got.headers["x-content-type-options"] == "nosniff"
        policy = dict(each.split(" ", 1) for each in got.headers["content-security-policy"].split("; "))
        assert policy.pop("default-src") == "'self'"
        assert set(policy.values()) == {"'none'"}, "no unsafe-inline, no other host"
        assert got.content == path.read_bytes()


def test_nothing_but_the_files_of_the_page_is_given(address):
    for name in ("nope.js", "..%2Fpalette.json", "%2Fetc%2Fpasswd"):
        assert httpx.get(f"{address}/page/{name}").status_code == 404
