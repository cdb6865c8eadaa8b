"""How many files, and so how many streams, this process may hold open."""

try:
    import resource
except ImportError:  # Windows sets no such limit
    resource = None  # type: ignore[assignment]

WANTED = 65_536
KEPT_BACK = 300
"""For everything that is not a stream: connections to Postgres and Redis, short requests, Python's own files."""


def raise_open_files() -> None:
    """Ask for as many as this process may have without anyone's leave."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_streams() -> int:
    """Streams that fit; further ones are sent to another process."""
    if resource is None:
        return WANTED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else max(1, min(soft, WANTED) - KEPT_BACK)
