"""The laboratory: the simulation, the bench and the measuring programs."""
