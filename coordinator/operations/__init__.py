"""Commands for operators: inspect log folders, show and change groups and topics, run a command beside a server.

None of them needs this server to run. `log_*` reads files and never writes any. `journal_*` copies the journal that workers
share into such files, and back. `groups*` and `topics*` speak the Kafka protocol to any bootstrap server, including a real
Kafka. Each command has a function that returns values, and a function that prints them as a table or as JSON.
"""
