"""The rules that docs/control.md shows can be set, and each field of a match, an action and an extent is on the page."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import fields

from coordinator.rules.check import rule_apis
from coordinator.rules.model import Action, Extent, Match, Rule
from tests.rules.samples import APIS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "control.md").read_text()
SHOWN = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
RULES = [each for each in SHOWN if "action" in each]


@pytest.mark.parametrize("shown", RULES, ids=json.dumps)
def test_a_rule_that_the_page_shows_can_be_set(shown):
    assert rule_apis(msgspec.convert(shown, Rule), {api.key: api for api in APIS.values()})


def test_every_step_of_an_action_and_every_field_of_a_match_and_extent_is_explained():
    named = {field.name for part in (Match, Action, Extent) for field in fields(part)}
    assert {name for name in named if f"`{name}`" not in PAGE} == set()


def test_every_new_step_has_an_example():
    used = {name for each in RULES for name in each["action"]}
    steps = {"hold", "delay_ms", "error", "lose", "answer", "flip_bits", "size", "cut_after", "bytes_per_s", "observe"}
    assert steps <= used
