"""FindCoordinator v1-3 say in words why there is no coordinator, also where a fault rule refuses."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FindCoordinatorRequest
from coordinator.requests.find_coordinator import API


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading and hence can't process requests."),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_a_refusal_without_words_has_those_of_its_error(code: ErrorCode, text: str) -> None:
    answer = API.refuse(FindCoordinatorRequest(key="g"), KafkaError(code), 3)
    assert (answer.error_code, answer.error_message) == (code, text)


def test_a_refusal_keeps_its_own_words() -> None:
    answer = API.refuse(FindCoordinatorRequest(key="g"), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you"), 3)
    assert answer.error_message == "not you"
