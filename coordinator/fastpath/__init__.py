"""The fast path: the few things that happen all day, done in a fraction of the time.

The rule: *delete this package, and every response and every byte of every log stays the same; the server is only slower.* The
ordinary path is complete without it, and cannot even import it (the package stands above everything but the server, and
import-linter checks that). The server plugs it in at three places: the event log gets `EVENT_ENCODERS`, the loader gets
`bulk_replayers`, and the dispatcher gets `template_learners`. `Server(..., fastpath=False)` leaves them out.

Why it exists: OffsetCommit is by far the most frequent write of a coordinator, and a consumer commits the same partitions over
and over. Only offsets, leader epochs and the time change; yet the request is decoded field by field, and so the response, the
records and the event are created and encoded. A start then replays millions of such records.

    module            what it does                                                            proved equal in tests/fastpath/
    byte_template     recognizes messages that differ from an earlier one only in some        test_byte_template.py
                      fixed-width integers, by comparing the rest; reads or fills in these
                      with one `struct` call
    record_template   the same for log records, wherever in a batch they begin                test_record_template.py
    repeated_commit   a connection's OffsetCommits are matched with an earlier one;           test_repeated_commit.py
                      response, records and event are filled in
    event_encoding    the bytes of frequent events, without a message in between              test_event_encoding.py
    bulk_replay       offset records go from the bytes of a log into the state                test_bulk_replay.py

    measured gain, in one process on a shared virtual machine (November 2026)         ordinary     fast
    an OffsetCommit of three partitions, from its frame to response, record and event    23 us   8.7 us
    the event of such a commit, encoded                                                 6.6 us   1.5 us (0.3 us if repeated)
    an offset record, replayed by a load                                                3.4 us   1.0 us

How a template stays right. It is made from two samples that the codec has encoded, whose integers differ in every byte, so it
contains no knowledge of the format. A template serves exactly the frames that equal its sample outside the variable fields.
Everything that a commit depends on besides its bytes is checked for each of them, by the functions of the ordinary path: the
fence, the version of the catalog of topics, and the committer that the event names. Whatever does not fit goes the ordinary
path: another partition, metadata, a missing topic, a group with pending offsets. So a template is never invalidated by others;
it is replaced by its connection when it stops matching.

The whole is tested as a whole, too: test_switched_off.py runs the simulator (faults, restarts and all) with and without the
fast path, and compares every byte delivered and every byte on the disk.
"""
