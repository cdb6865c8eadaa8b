"""What a process probes for the control plane: by its own list, one at a time, within limits, telling facts alone."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from recloser import Client
from recloser.prober import Offer, Prober, Unfit, listed
from recloser.probing import asked


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        getattr(self, self.path.strip("/"))()

    do_HEAD = do_GET

    def ok(self):
        self._answer(200, b"fine")

    def away(self):
        self._answer(302, b"", Location="http://127.0.0.1:1/elsewhere")

    def busy(self):
        self._answer(503, b"", **{"Retry-After": "7"})

    def endless(self):
        self.send_response(200)
        self.send_header("Content-Length", "100000000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 8192)
        except OSError:
            return

    def drip(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        try:
            while not self.server.over.wait(0.02):
                self.wfile.write(b".")
                self.wfile.flush()
        except OSError:
            return

    def nonsense(self):
        self.wfile.write(b"\x00\x01 no http at all\r\n\r\n")

    def _answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.seen, running.over = [], threading.Event()
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        running.place = f"127.0.0.1:{running.server_port}"
        yield running
        running.over.set()
        running.shutdown()
        thread.join(5)


def offered(server, path="/ok", **more):
    return {
        "id": "6f0c", "generation": 5, "lease_s": 5.0, "kind": "http", "host": server.place,
        "url": f"http://{server.place}{path}", "method": "GET", "headers": {}, "time_limit_s": 2.0,
    } | more  # fmt: skip


def result(server, path, **more):
    return asked(Offer.read(offered(server, path, **more), (server.place,)))


def test_a_status_and_a_time_are_told_and_nothing_else(server):
    told = result(server, "/ok", headers={"Accept": "text/plain"})
    assert (told["status"], set(told)) == (200, {"status", "took_ms"})
    assert server.seen[0][1]["Accept"] == "text/plain"


def test_a_redirect_is_an_answer_and_not_followed(server):
    assert result(server, "/away")["status"] == 302
    assert len(server.seen) == 1


def test_a_wait_is_told(server):
    assert result(server, "/busy")["retry_after_s"] == 7.0


def test_an_endless_body_is_cut_and_a_drip_ends_with_the_time(server):
    assert result(server, "/endless")["status"] == 200
    assert result(server, "/drip", time_limit_s=0.3)["fault"] == "timeout"


def test_nonsense_silence_and_nobody_are_kinds_of_failure(server):
    assert result(server, "/nonsense")["fault"] == "broken_answer"
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{held.getsockname()[1]}"
        gone = {"kind": "tcp", "id": "1", "generation": 1, "lease_s": 5, "time_limit_s": 1, "host": place}
        assert asked(Offer.read(gone, (place,)))["fault"] == "connect"
        held.listen()
        assert set(asked(Offer.read(gone, (place,)))) == {"took_ms"}


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "http://169.254.169.254/latest/meta-data"},
        {"url": "http://user:word@127.0.0.1:80/"},
        {"url": "file:///etc/passwd"},
        {"url": "http://127.0.0.1:99999/"},
        {"url": None},
        {"method": "DELETE"},
        {"kind": "redis"},
        {"kind": "tcp", "host": "10.0.0.1:22"},
        {"time_limit_s": "nan"},
        {"time_limit_s": -1},
        {"lease_s": 0},
        {"headers": 3},
        {"id": None, "generation": None},
    ],
)
def test_an_offer_that_does_not_fit_its_own_list_is_never_sent(server, changed):
    with pytest.raises(Unfit):
        Offer.read(offered(server) | changed, (server.place,))
    prober = Prober([server.place])
    prober.take([offered(server) | changed, "nonsense", None, 7], lambda: None)
    assert prober.willing
    assert prober.untold == [] and server.seen == [] and prober.problem


def test_no_offer_sets_the_host_or_credentials(server):
    result(server, "/ok", headers={"Host": "other", "Authorization": "Bearer x", "Cookie": "a=b", "X-Fine": "1"})
    sent = server.seen[0][1]
    assert sent["Host"] == server.place
    assert "Authorization" not in sent and "Cookie" not in sent and sent["X-Fine"] == "1"


def test_an_offer_that_comes_again_is_asked_once_and_told_until_it_is_acknowledged(server):
    prober, done = Prober([server.place]), threading.Event()
    prober.take([offered(server)], done.set)
    assert done.wait(10)
    prober.take([offered(server)], done.set)

    assert [one["id"] for one in prober.untold] == ["6f0c"]
    assert prober.about()["probes"] == prober.untold
    prober.acknowledged(prober.untold)
    assert prober.untold == []
    assert len(server.seen) == 1


def test_one_at_a_time_and_not_willing_meanwhile(server):
    prober, done = Prober([server.place]), threading.Event()
    prober.take([offered(server, "/drip", time_limit_s=0.5)], done.set)
    assert prober.about()["probe_hosts"] == []
    prober.take([offered(server, id="another")], done.set)
    assert done.wait(10)
    assert [one["id"] for one in prober.untold] == ["6f0c"]


def test_where_no_thread_can_be_had_the_next_offer_is_still_welcome(server, monkeypatch):
    prober = Prober([server.place])

    def refused(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        prober.take([offered(server)], lambda: None)
    assert prober.willing and prober.untold == []


@pytest.mark.parametrize(
    "bad", ["crm.internal:443", ["crm.internal"], ["http://crm:80"], ["crm:0"], ["crm:99999"], [""]]
)
def test_a_list_that_is_none_is_an_error_that_says_how_to_write_it(bad):
    with pytest.raises(ValueError, match=r"crm\.internal:443"):
        listed(bad)
    with pytest.raises(ValueError, match="probe_hosts"):
        Client(probe_hosts=bad)


def test_who_lists_nothing_says_nothing(server):
    assert Prober(()).about() == {}


def test_a_client_that_is_frozen_between_invocations_is_never_willing():
    client = Client(mode="invocation", probe_hosts=["crm.internal:443"])
    assert client.status()["probing"]["hosts"] == []
