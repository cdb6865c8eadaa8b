"""The one shape of a refusal."""


class Refused(Exception):
    """Something was asked that cannot be done: what is wrong, at which field if at one, and how to mend it."""

    def __init__(self, code: str, message: str, mend: str, field: str | None = None) -> None:
        super().__init__(f"{message}: {mend}")
        self.code = code
        self.message = message
        self.mend = mend
        self.field = field
