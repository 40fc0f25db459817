"""The commands of this package: `coordinator certify`, `control` and `exec`."""
