"""CreateAcls with thousands of ACLs validates them in slices, and creates all valid ones in one batch."""

from types import SimpleNamespace

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreateAclsRequest
from coordinator.requests import create_acls

MANY = 1_000


def creation(number):
    return CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name=f"topic-{number}",
        resource_pattern_type=3,
        principal="User:alice" if number else "nobody",
        host="*",
        operation=3,
        permission_type=3,
    )


def test_many_acls_are_validated_in_steps_and_created_in_one_batch():
    operations, committed, answers = [], [], []
    metadata = SimpleNamespace(
        in_turn=lambda operation, _refuse: operations.append(operation),
        commit=lambda records, done: (committed.append(records), done(ErrorCode.NONE)),
    )
    server = SimpleNamespace(
        topics=SimpleNamespace(metadata=metadata), entropy=SimpleNamespace(uuid=lambda: "0" * 8 + "-" + "0" * 24)
    )
    exchange = SimpleNamespace(
        request=CreateAclsRequest([creation(number) for number in range(MANY)]),
        reply_in_slices=answers.append,
        refuse=None,
    )
    steps = sum(1 for _ in create_acls._validate(server, SimpleNamespace(has=lambda _acl: False), exchange))
    assert steps == MANY // create_acls.PIECE_ACLS
    (operation,) = operations
    operation()
    assert [len(records) for records in committed] == [MANY - 1]
    (answer,) = answers
    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST] + [0] * (MANY - 1)
