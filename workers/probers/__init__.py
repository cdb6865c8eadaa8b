"""One file for each kind of probe."""
