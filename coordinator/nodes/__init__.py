"""Several brokers in one process (`serve --nodes`), for tests of clients that have to find the right one.

Each broker has an id and listeners of its own. Behind them is one server with its groups, transactions, topics and records.
`brokers` knows which broker leads which partition. `views` shows the server to the requests of one broker: what another broker
leads is elsewhere, as it is for a worker whose peer has it. A server that is one broker has none of this in its way.
"""
