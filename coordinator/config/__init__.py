"""Settings: what there is to set, and how a file, the environment and the command line become one configuration.

load         reads and checks the sources, in their order of precedence; prints a configuration as a file
environment  maps environment variables to settings
settings     the table of all settings, and the frozen dataclasses that the parts of the server receive
paths        where the configuration files are that come with the server
"""
