"""Many at the same moment."""

import threading

from django.db import connection


def at_once(work, times):
    """Run it in so many threads, each with a connection of its own; what they returned."""
    barrier, results, errors = threading.Barrier(times), [], []

    def run():
        try:
            barrier.wait(10)
            results.append(work())
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    return results
