"""`coordinator groups what-if`: a recorded group, played again through the group machine under other settings.

    event log  ->  recording   the events of one group
                   behaviour   what its consumers did: when they came, went, fell silent, and how long they took to join again
                   replay      these consumers, as members of a GroupMachine on simulated time
                   outcome     the same measures of the recorded and of the replayed events
                   answer      recorded, replayed as it was, replayed with other settings: as a table and as JSON

The events are those of a server or of `coordinator watch`, so the record of a Kafka is replayed in the same way.

It is part of the laboratory because it needs simulated time, which the server does not have.
"""
