"""The operator API: everything that exists, read and written, for scripts and for people with curl."""
