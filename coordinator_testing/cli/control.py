"""`coordinator control`: faults, groups, time and recordings of a running server (docs/control.md)."""

from coordinator.cli.command_line import LazyGroup, Loaded

control = LazyGroup(
    "control",
    "coordinator_testing.cli",
    {
        "faults": Loaded("control_faults", "Set fault rules, wait until they act, clear them."),
        "groups": Loaded("control_groups", "Act on groups, wait for their state, look into their past."),
        "transactions": Loaded(
            "control_transactions", "Abort transactions as their timeout does, and move their coordinator."
        ),
        "brokers": Loaded("control_brokers", "Take brokers of `serve --nodes` down and up, and move what they lead."),
        "workers": Loaded("control_workers", "Show who has which shard, and drain a worker."),
        "emulate": Loaded("control_emulate", "Show the release of Kafka that clients see, or become another one."),
        "clock": Loaded("control_clock", "Show the server's clock, stop it, advance it."),
        "record": Loaded("control_record", "Record what clients ask and are answered."),
        "events": Loaded("control_events", "Show the events of groups as they happen."),
    },
    help="Inject faults, act on groups and set the clock of a server, over admin HTTP.",
)
