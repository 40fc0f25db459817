"""A headless Chromium whose pages load from nowhere else, break no rule of their policy, and report no error."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from coordinator.admin.event_json import decoded
from tests.support.browser import browser
from tests.support.recorded_storm import RecordedStorm

_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + event.blockedURI));
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser. A module has it for itself: while it runs, this thread has an event loop, so that no async test can."""
    files = browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=files.executable, env=files.environment, args=["--no-sandbox"]
        )
        yield started
        started.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a page of its own; takes what Playwright's `new_context` takes."""
    problems: list[str] = []
    opened: list[tuple[Any, set[tuple[str, str]]]] = []

    def open_it(url: str, expected: str | None = None, **options: Any) -> Any:
        """`expected`: a part of messages on the console that are no problem, such as the status of a refusal."""
        options = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US"} | options
        page = chromium.new_context(**options).new_page()
        hosts: set[tuple[str, str]] = set()
        page.on("request", lambda request: hosts.add(urlsplit(request.url)[:2]))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "console",
            lambda said: (
                problems.append(said.text)
                if said.type in {"error", "warning"} and not (expected and expected in said.text)
                else None
            ),
        )
        page.add_init_script(_WATCH)
        page.goto(url)
        opened.append((page, hosts))
        return page

    yield open_it
    for page, hosts in opened:
        own = urlsplit(page.url)[:2]
        assert hosts == {own}, "no request leaves the host"
        if page.evaluate("typeof violations !== 'undefined'"):
            assert page.evaluate("violations") == []
        page.context.close()
    assert problems == []


def axe_faults(page: Any) -> list[str]:
    """What axe-core finds wrong for people with disabilities."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(browser().axe)  # through the debugger, so that the policy of the page stays as it is
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


@pytest.fixture(scope="session")
def storm_events(recorded_storm: RecordedStorm) -> list[dict[str, Any]]:
    """The events of the recorded storm in the form of `/v1/events`."""
    [segment] = (recorded_storm.data / "__coordinator_events-0").glob("*.log")
    entries, _ = decoded(0, segment.read_bytes(), 0, "orders")
    return [json.loads(entry.json) for entry in entries]
