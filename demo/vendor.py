"""The vendor: a real HTTP service whose hotel part is up and down as a recorded history says.

python -m demo.vendor --port 9001 --begin 1790000000.0
"""

import argparse
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from demo.cast import OUTAGE_AT
from demo.history import History, Moment

ANSWERS = {"ok": 200, "empty": 200, "semantic": 400, "retryable": 503}


class Vendor(BaseHTTPRequestHandler):
    """GET /<dependency>/<tool>?outcome=&result= answers as recorded, unless the history says that it is down."""

    history: ClassVar[History]
    begin: ClassVar[float]
    tally: ClassVar[Counter[str]] = Counter()
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_GET(self) -> None:
        """Answer one call."""
        parts = urlsplit(self.path)
        moment = self.history.at(time.time() - self.begin)
        if parts.path == "/_stats":
            return self._answer(200, {"down": moment.down, "calls": dict(self.tally)})
        down = moment.down and parts.path.startswith(f"/{OUTAGE_AT}/")
        self._count(parts.path, down, probe="Recloser" in self.headers.get("User-Agent", ""))
        if down:
            return self._fail(moment)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        outcome = query.get("outcome", "ok")
        body = [] if outcome == "empty" else {"result": query.get("result", "")}
        self._answer(ANSWERS.get(outcome, 200), body)

    def _count(self, path: str, down: bool, *, probe: bool) -> None:
        who = "probes" if probe else "calls"
        with self.lock:
            self.tally[f"{who}_total"] += 1
            self.tally[f"{who}_while_down"] += down

    def _fail(self, moment: Moment) -> None:
        """Where the record says that nothing answered, hang up; else give the recorded status."""
        if moment.code is None:
            self.close_connection = True
            self.connection.close()
        else:
            self._answer(moment.code, {"error": "recorded failure"})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the story."""

    def finish(self) -> None:
        """A connection we hung up on purpose has nothing left to flush."""
        try:
            super().finish()
        except (OSError, ValueError):
            return


def main() -> None:
    """Serve until killed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--begin", type=float, required=True)
    chosen = options.parse_args()
    Vendor.history, Vendor.begin = History(), chosen.begin
    server = ThreadingHTTPServer(("127.0.0.1", chosen.port), Vendor)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
