"""What a step of the database's clock leaves behind, besides deadlines: what was seen in what is now the future.

After a step forward they are merely old: one window of samples is lost, and nothing opens or closes by that. After a
step back they would be young again for as long as the step was: the dead would live, and old samples count once more.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

_DISOWN = "UPDATE observation SET counted = false WHERE received_at > %s AND counted"
_SHIFT = """
UPDATE {table} SET {column} = {column} + make_interval(secs => %s) WHERE {column} > %s
"""
SEEN = (
    ("controlplane_session", "last_seen_at"),
    ("controlplane_worker", "last_seen_at"),
    ("controlplane_processbeat", "beat_at"),
    ("controlplane_circuit", "fault_seen_at"),
    ("controlplane_alertcause", "seen_at"),
    ("controlplane_probe", "heartbeat_at"),
)


@transaction.atomic
def rein_in(*, by_s: float, now: datetime) -> int:
    """After a step back, move what was seen along with the clock, and count no sample twice; how many rows."""
    if by_s >= 0:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_DISOWN, [now])
        rows = cursor.rowcount
        for table, column in SEEN:
            cursor.execute(_SHIFT.format(table=table, column=column), [by_s, now])
            rows += cursor.rowcount
    return int(rows)
