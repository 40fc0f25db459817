"""The JSON of fault rules: what is absent, what is refused, and that it survives a round trip."""

import msgspec
import pytest

from coordinator.rules.model import Action, Extent, Match, Rule

_RULE = msgspec.json.Decoder(Rule)


def test_a_rule_survives_json_and_what_is_absent_stays_absent():
    text = (
        b'{"action":{"error":"ILLEGAL_GENERATION"},"match":{"api":["Heartbeat"],"version":[1,3]},"extent":{"times":2}}'
    )
    rule = _RULE.decode(text)
    assert rule == Rule(Action(error="ILLEGAL_GENERATION"), Match(api=("Heartbeat",), version=(1, 3)), Extent(times=2))
    assert msgspec.json.encode(rule) == text


@pytest.mark.parametrize(
    ("extent", "times"),
    [({}, 1), ({"times": 3}, 3), ({"until": "cleared"}, None), ({"for_ms": 5}, None), ({"probability": 0.5}, 1)],
)
def test_a_rule_acts_once_unless_its_extent_says_otherwise(extent, times):
    assert msgspec.convert(extent, Extent).times_max == times


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ({}, "found none"),
        ({"lose": "answer", "close": True}, "lose cannot be combined with close"),
        ({"lose": "answer", "error": "NONE"}, "error cannot be combined with lose"),
        ({"lose": "request", "delay_ms": 1, "when": "after"}, "a lost request has no answer"),
        ({"observe": True, "delay_ms": 1}, "observe cannot be combined with delay_ms"),
        ({"delay_ms": 1, "instead": True}, "instead belongs to answer, not to delay_ms"),
        ({"lose": "answer", "message": "x"}, "message belongs to error, not to lose"),
        ({"close": True, "when": "after"}, "when belongs to delay_ms, not to close"),
        ({"lose": "both"}, "Invalid enum value 'both'"),
        ({"close": False}, "Invalid enum value False"),
        ({"delay_ms": -1}, "`int` >= 0"),
        ({"answer": {}}, "length >= 1"),
        ({"eror": "NONE"}, "unknown field `eror`"),
    ],
)
def test_an_action_that_is_none_is_refused_with_the_reason(action, reason):
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"action": action}, Rule)
    assert reason in str(refused.value)


@pytest.mark.parametrize("condition", [{}, []])
def test_a_condition_that_says_nothing_is_refused(condition):
    with pytest.raises(msgspec.ValidationError, match=r"length >= 1 - at `\$.match.where"):
        msgspec.convert({"match": {"where": {"MemberEpoch": condition}}, "action": {"observe": True}}, Rule)
