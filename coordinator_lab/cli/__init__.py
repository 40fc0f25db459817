"""The commands of this package: `coordinator simulate` and `bench`."""
