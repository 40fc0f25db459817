"""A response that is encoded in slices has the bytes that the codec gives it."""

from random import Random

import pytest

from coordinator.protocol.codec import Codec
from coordinator.protocol.spliced_array import PIECE_ELEMENTS, SplicedArray
from tests.protocol.message_making import SCHEMAS, make_message

CODEC = Codec.of()
ANSWERED_IN_SLICES = (
    "AddPartitionsToTxn", "AlterConfigs", "ConsumerGroupDescribe", "CreateTopics", "DeleteGroups", "DescribeGroups",
    "DescribeTransactions", "DescribeUserScramCredentials", "FindCoordinator", "IncrementalAlterConfigs", "ListGroups",
    "ListTransactions", "OffsetFetch", "StreamsGroupDescribe",
)  # fmt: skip
"""Those that go to several shards, or whose API file says so (`Exchange.reply_in_slices`)."""


def in_slices(response, version):
    """The bytes, and the number of slices."""
    name = f"{type(response).__name__}"
    encode, is_flexible = CODEC.encoder(name, version), CODEC.is_flexible(name, version)
    array = SplicedArray(encode, is_flexible, int(is_flexible))
    work, slices = array.in_pieces(response, type(response).__slots__[-1]), 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return b"".join(done.value), slices
        slices += 1


@pytest.mark.parametrize("count", [5, 3 * PIECE_ELEMENTS])
@pytest.mark.parametrize("api", ANSWERED_IN_SLICES)
def test_every_version_has_the_bytes_of_the_codec(api, count):
    compared = 0
    for version in CODEC.versions(f"{api}Response"):
        random = Random(f"{api}{version}")
        response = make_message(SCHEMAS[f"{api}Response"], version, random)
        array = type(response).__slots__[-1]
        elements = [
            element
            for _ in range(count)
            for element in getattr(make_message(SCHEMAS[f"{api}Response"], version, random), array) or ()
        ]
        if not elements:  # this version has the array elsewhere, and is encoded at once
            continue
        setattr(response, array, [*elements, elements[0], elements[0]])
        encoded, slices = in_slices(response, version)
        assert encoded == CODEC.encoder(f"{api}Response", version)(response), version
        assert slices > 1
        compared += 1
    assert compared


def test_an_element_that_occurs_often_is_encoded_once():
    """A client may name a large group a hundred times."""
    response = make_message(SCHEMAS["OffsetFetchResponse"], 8, Random(1))
    group = type(response).OffsetFetchResponseGroup("big", [], 0)
    topic = type(response).OffsetFetchResponseTopics
    partition = type(response).OffsetFetchResponsePartitions
    group.topics = [topic("t", bytes(16), [partition(index, 1, 1, "", 0) for index in range(5_000)])]
    response.groups = [group] * 100
    encode, encoded = CODEC.encoder("OffsetFetchResponse", 8), []

    def counting(message):
        encoded.append(len(message.groups))
        return encode(message)

    work = SplicedArray(counting, True, 1).in_pieces(response, "groups")
    for _ in work:
        pass
    assert sum(encoded) < 5
