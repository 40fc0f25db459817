"""A member that an administrator removes gets what Kafka answers to one that it has removed itself.

The stories are those of sessions that expire, which Kafka answers in the same way (test_scenarios.py). Here nobody waits: time
stands still, and an act takes the place of the last wait.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.scenarios.conversation import Brokers, Conversation
from tests.scenarios.story import Step, Story, read_story

HERE = Path(__file__).parent
CASES = {
    "session_expires": "c-<3>",
    "static_member_expires": "one-<2>",
    "consumer_session_expires": "ben",
    "streams_session_expires": "ben",
}
"""Story -> the member whose session expires in it."""


class Acting(Conversation):
    """A conversation with acts: steps without an answer of the story's own."""

    def perform(self, step: Step, rewrite: bool) -> str | None:
        if not step.text.startswith("act "):
            return super().perform(step, rewrite)
        _, path, body = step.text.split(" ", 2)
        parts = [str(self.word(part)) if "<" in part else part for part in path.split("/")]
        answer = self.post("/".join(parts), {"mode": body} if path.endswith("clock") else {})
        assert "status: 200" in answer, answer
        return None


def with_act(story: Story, member: str, how: str) -> Story:
    """The story in stopped time, with an act instead of its last wait and no others."""
    steps = list(story.steps)
    last = max(index for index, step in enumerate(steps) if step.text.startswith("wait "))
    steps[last] = Step(0, f"act /v1/groups/g/members/{member}/{how} -")
    steps = [step for step in steps if not step.text.startswith("wait ")]
    clock = [Step(0, f"act /v1/clock {mode}") for mode in ("manual", "real")]
    return replace(story, steps=[clock[0], *steps, clock[1]])


@pytest.mark.parametrize("how", ["evict", "expire-session"])
@pytest.mark.parametrize("name", CASES)
def test_a_removed_member_gets_kafkas_answer(our_servers: Brokers, name: str, how: str) -> None:
    story = with_act(read_story(HERE / f"{name}.txt"), CASES[name], how)
    Acting(story, our_servers(story.settings, "")).run()
