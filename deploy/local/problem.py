"""The one kind of error that a person is meant to read."""


class Problem(Exception):
    """Something the user can mend; the text is one line that says how."""
