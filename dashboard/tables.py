"""Lists as CSV: sent while they are read, page by page, and no cell is taken for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

ROWS = 500
"""So many are read, written and sent at a time."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""

Cells = Sequence[object]


def export(
    request: HttpRequest, name: str, head: Sequence[str], pages: Iterable[Iterable[Cells]]
) -> StreamingHttpResponse:
    """The table as a file; the next page is read when the one before it has gone out."""
    parts = _parts(head, pages)
    body = _awaited(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(body, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _parts(head: Sequence[str], pages: Iterable[Iterable[Cells]]) -> Iterator[bytes]:
    yield _written([head])
    for page in pages:
        yield _written(page)


async def _awaited(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same where a server awaits it: each page is read in a thread."""
    read = sync_to_async(lambda: next(parts, None))
    while (part := await read()) is not None:
        yield part


def _written(rows: Iterable[Cells]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(each) for each in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int | float):
        return value
    text = str(value).replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text
