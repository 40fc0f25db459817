"""Settings: what can be set, and how a file, the environment and the command line become one configuration.

load         reads and checks the sources, in their order of precedence
show         prints a configuration as a file, and the page of all settings
environment  maps environment variables to settings
settings     the table of all settings, and the frozen dataclasses that the parts of the server receive
kafka_settings  Kafka's settings that are none of this server, and why
paths        the folder of the configuration files that come with the server
"""
