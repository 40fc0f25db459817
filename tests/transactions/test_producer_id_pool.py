"""One producer id is always ready, and none is given out twice."""

from coordinator.protocol.errors import ErrorCode
from coordinator.transactions.producer_id_pool import ProducerIdPool


class Source:
    """Gives out an id when `give` is called."""

    def __init__(self):
        self.asked = []
        self.next = 0

    def next_producer_id(self, done):
        self.asked.append(done)

    def give(self, error=ErrorCode.NONE):
        done = self.asked.pop(0)
        done(error, self.next if error is ErrorCode.NONE else -1)
        self.next += error is ErrorCode.NONE


def test_requests_wait_until_an_id_is_ready():
    source, served = Source(), []
    ids = ProducerIdPool(source)
    assert ids.take() is None
    ids.ready(lambda: served.append(ids.take()))
    ids.ready(lambda: served.append(ids.take()))
    assert (served, len(source.asked)) == ([], 1), "it asks once"
    source.give()
    assert served == [0], "the second waits for another"
    source.give()
    assert served == [0, 1]


def test_a_request_that_finds_an_id_is_served_once():
    source, served = Source(), []
    ids = ProducerIdPool(source)
    ids.ready(lambda: None)
    source.give()
    ids.ready(lambda: served.append(ids.take()))
    source.give()
    assert served == [0]


def test_a_taken_id_is_replaced_at_once():
    source = Source()
    ids = ProducerIdPool(source)
    ids.ready(lambda: None)
    source.give()
    assert ids.take() == 0
    assert len(source.asked) == 1
    source.give()
    assert ids.take() == 1


def test_when_no_id_can_be_had_waiting_requests_continue_without():
    source, served = Source(), []
    ids = ProducerIdPool(source)
    ids.ready(lambda: served.append(ids.take()))
    source.give(ErrorCode.KAFKA_STORAGE_ERROR)
    assert served == [None]
