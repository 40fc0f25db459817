"""The laboratory: the simulation, replays of recorded groups, the bench and the measuring programs."""
