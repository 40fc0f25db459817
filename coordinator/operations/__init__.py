"""What a person does to a server from outside: look into log folders, look at and change groups.

Nothing here needs a running server of ours. `log_*` reads files and writes none; `groups*` speaks the Kafka protocol to
any bootstrap server, a real Kafka too. Each command is a function that yields or returns plain values, and a function
that shows them, as a table or as JSON.
"""
