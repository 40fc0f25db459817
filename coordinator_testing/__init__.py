"""What test suites use: the control client, certification of consumer programs, the pytest plugin, throw-away servers."""
