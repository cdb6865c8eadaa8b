"""One file for each kind of channel."""
