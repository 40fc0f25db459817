"""Error codes are those of other implementations."""

import warnings

from kio.schema.errors import ErrorCode as KioErrorCode

from coordinator.protocol.errors import ErrorCode, KafkaError


def test_codes_are_kafkas():
    """-1 to 136 without a gap, with the names that kio has."""
    assert sorted(ErrorCode) == list(range(-1, 137))
    for other in KioErrorCode:
        assert ErrorCode(int(other)).name.lower() == other.name.lower().removeprefix("ErrorCode.")


def test_the_retriable_codes_are_those_that_clients_retry():
    """The codes that kafka-python retries are among Kafka's retriable ones or differ for a known reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its import uses what Python 3.11 deprecates
        import kafka.errors
    theirs = {
        cls.errno for cls in vars(kafka.errors).values() if getattr(cls, "retriable", False) and hasattr(cls, "errno")
    }
    ours = {int(code) for code in ErrorCode if code.retriable}
    assert {14, 15, 16, 7, 3} <= ours & theirs
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.ILLEGAL_GENERATION.retriable


def test_the_text_of_an_error_has_its_name_and_message():
    """The text is for logs; a response carries the code, and the message if it has a field for it."""
    assert (
        str(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")) == "GROUP_ID_NOT_FOUND: Group g not found."
    )
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"
    assert KafkaError(ErrorCode.NOT_COORDINATOR).message is None
