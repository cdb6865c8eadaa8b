"""Config and circuits: checked before they are applied, ordered, kept on disk, never confused with nothing."""

from __future__ import annotations

import copy
import json
import stat

import pytest
from conftest import FAST, failing, until, working
from recloser import Client
from recloser.cache import DocumentCache
from recloser.config_sync import Documents, Source, Taken
from recloser.core.types import SideEffectClass
from recloser.errors import BadDocument
from recloser.testing import FakeControlPlane, Scripted, config_document, error

SIX = {f"tool_{n}": {"side_effect": "side_effect" if n % 2 else "read_only"} for n in range(6)}


def circuits(version: int = 1, *, epoch: str = "e1", now: float = 1000.0, **entries: object) -> dict:
    return {"format": 1, "epoch": epoch, "version": version, "complete": True, "now": now, "circuits": entries}


OPEN = {"state": "open", "mode": "auto", "generation": 5, "delivery": "enforce", "cause": "failure_rate"}


@pytest.mark.case("C02")
def test_an_older_answer_that_comes_late_replaces_nothing():
    """C02: refresh A (v12) is answered after refresh B (v13)."""
    documents = Documents()
    assert documents.take_config(config_document(version=13), etag='"13"', now=6.0) is Taken.APPLIED
    assert documents.take_config(config_document(version=12), etag='"12"', now=9.0) is Taken.OLDER
    assert documents.config.version == ("e1", 13) and documents.config.etag == '"13"'
    assert documents.snapshot.config.version == ("e1", 13)


@pytest.mark.case("C02")
def test_a_304_to_an_older_tag_does_not_confirm_the_newer_document():
    documents = Documents()
    documents.take_config(config_document(version=13), etag='"13"', now=6.0)
    documents.config.fail("500", 7.0)
    assert not documents.unchanged(documents.config, '"12"', 9.0)
    assert documents.config.stale_since is not None
    assert documents.unchanged(documents.config, '"13"', 10.0)
    assert documents.config.stale_since is None


def test_another_epoch_is_taken_whatever_its_number():
    documents = Documents()
    documents.take_config(config_document(version=13), etag=None, now=1.0)
    assert documents.take_config(config_document(version=2, epoch="e2"), etag=None, now=2.0) is Taken.APPLIED
    assert documents.config.version == ("e2", 2)


def test_a_delta_that_does_not_follow_is_a_gap():
    documents = Documents()
    documents.take_circuits(circuits(10), etag=None, now=0.0)
    follows = {"epoch": "e1", "previous": 10, "version": 11, "now": 1001.0, "circuits": {"a": OPEN}}
    assert documents.take_delta(follows, now=1.0) is Taken.APPLIED
    assert "a" in documents.snapshot.circuits
    assert documents.take_delta(follows, now=1.0) is Taken.OLDER
    assert documents.take_delta(follows | {"previous": 12, "version": 13}, now=1.0) is Taken.GAP
    assert documents.take_delta(follows | {"epoch": "e2"}, now=1.0) is Taken.GAP
    closed = follows | {"previous": 11, "version": 12, "circuits": {"a": {"state": "closed", "generation": 6}}}
    assert documents.take_delta(closed, now=2.0) is Taken.APPLIED
    assert "a" not in documents.snapshot.circuits
    assert documents.snapshot.generation("a") == 6


def test_a_closed_entry_of_null_is_closed():
    documents = Documents()
    documents.take_circuits(circuits(1, a=OPEN), etag=None, now=0.0)
    delta = {"epoch": "e1", "previous": 1, "version": 2, "now": 1001.0, "circuits": {"a": None}}
    assert documents.take_delta(delta, now=1.0) is Taken.APPLIED
    assert "a" not in documents.snapshot.circuits
    assert documents.snapshot.generation("a") == 5


def test_what_an_answer_to_a_batch_says_is_not_undone_by_an_older_document():
    documents = Documents()
    documents.take_circuits(circuits(10), etag=None, now=0.0)
    answer = {"circuits": {"a": OPEN}, "circuits_version": ["e1", 12], "now": 1002.0}
    assert documents.take_entries(answer, now=2.0) is True
    documents.take_circuits(circuits(11), etag=None, now=3.0)
    assert "a" in documents.snapshot.circuits
    documents.take_circuits(circuits(12), etag=None, now=4.0)
    assert "a" not in documents.snapshot.circuits


def test_server_time_is_told_by_the_monotonic_clock():
    documents = Documents()
    forced = OPEN | {"state": "closed", "mode": "forced_open", "mode_expires_at": 1060.0}
    documents.take_circuits(circuits(1, now=1000.0, a=forced), etag=None, now=50.0)
    view, snapshot = documents.snapshot.circuits["a"], documents.snapshot
    assert not view.effective(snapshot.server_now(109.0)).admits
    assert view.effective(snapshot.server_now(110.5)).admits


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(format=2),
        lambda d: d.update(complete=False),
        lambda d: d.update(version="7"),
        lambda d: d.update(now=float("nan")),
        lambda d: d["tools"].update(tool_1=None),
        lambda d: d["tools"]["tool_1"].update(policy=99),
        lambda d: d["tools"]["tool_1"].update(dependencies=[]),
        lambda d: d["tools"]["tool_1"].update(side_effect="harmless"),
        lambda d: d["run_policies"][0].update(consecutive_failures="many"),
        lambda d: d["circuit_policies"].clear(),
        lambda d: d.update(environment="staging"),
        lambda d: d.pop("default_run_policy"),
        lambda d: d.update(dependencies=[]),
    ],
)
def test_a_document_with_one_fault_is_not_applied_at_all(spoil):
    documents = Documents(environment="prod")
    documents.take_config(config_document(tools=SIX), etag='"7"', now=1.0)
    before = documents.snapshot
    spoiled = copy.deepcopy(config_document(version=8, tools=SIX))
    spoil(spoiled)
    with pytest.raises(BadDocument):
        documents.take_config(spoiled, etag='"8"', now=2.0)
    assert documents.snapshot is before
    assert documents.config.etag == '"7"' and documents.config.stale_since == 1.0 and documents.config.problem


@pytest.mark.parametrize("given", [None, [], 1, "x", {}, circuits(1, a={"state": "ajar"}), circuits(1, a=None)])
def test_circuits_that_cannot_be_read_close_nothing(given):
    documents = Documents()
    documents.take_circuits(circuits(1, a=OPEN), etag=None, now=0.0)
    with pytest.raises(BadDocument):
        documents.take_circuits(given, etag=None, now=1.0)
    assert "a" in documents.snapshot.circuits


@pytest.mark.case("C03")
def test_failure_and_emptiness_are_not_taken_for_an_answer(plane, connect):
    """C03: two policies not computed, then 500, then an empty body, then cut-off JSON; all six stay as they were."""
    plane.streaming = False
    plane.config = config_document(tools=SIX)
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    before = client.documents.snapshot.config

    partly = copy.deepcopy(config_document(version=8, tools=SIX))
    partly["tools"]["tool_1"] = partly["tools"]["tool_2"] = {"error": "not computed"}
    body = json.dumps(partly).encode()
    asked = len(plane.asked("config"))
    plane.script(
        "config",
        Scripted(200, body=body, headers={"ETag": '"8"'}),
        error(500, "internal"),
        Scripted(200, body=b""),
        Scripted(200, body=body, cut=True),
        *[error(500, "internal") for _ in range(50)],
    )
    assert plane.wait(lambda: len(plane.asked("config")) >= asked + 5, 10.0)

    assert client.documents.snapshot.config is before
    assert client.status()["config"]["stale_since"] is not None
    assert client.status()["config"]["problem"]
    assert before.tools["tool_1"].policy.consecutive_failures == 2
    assert before.tools["tool_1"].side_effect is SideEffectClass.SIDE_EFFECT
    with client.run() as run:
        for n in range(2):
            run.call("tool_1", {"n": n}, failing)
        assert run.call("tool_1", {"n": 9}, working)["status"] == "unavailable"


def test_a_newer_config_reaches_the_agent_by_the_stream(plane, connect):
    client = connect(pace=type(FAST)(poll_config_s=60.0, poll_live_s=60.0, stream_base_s=0.1))
    assert until(lambda: client.status()["feed"] == "live")
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    plane.publish_config()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 8], 3.0)


def test_without_a_stream_the_agent_polls_and_says_so(plane, connect):
    plane.streaming = False
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    plane.publish_config()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 8])
    assert client.status()["feed"] == "polling"


def test_a_silent_stream_is_dropped_for_polling(plane, connect):
    pace = type(FAST)(
        **{**{name: getattr(FAST, name) for name in FAST.__slots__}, "silence_s": 0.3, "stream_base_s": 30.0}
    )
    client = connect(pace=pace)
    assert until(lambda: client.status()["feed"] == "live")
    assert until(lambda: client.status()["feed"] == "polling", 3.0)
    plane.set_circuit("web_search", tell=False, state="open")
    assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"], 3.0)


@pytest.mark.parametrize("chunked", [True, False])
def test_circuits_arrive_at_connect_and_as_deltas(plane, connect, chunked):
    plane.chunked = chunked
    plane.set_circuit("before", state="open")
    client = connect(pace=type(FAST)(poll_circuits_s=60.0, poll_live_s=60.0))
    assert until(lambda: client.status()["feed"] == "live")
    assert until(lambda: "before" in client.status()["circuits"]["not_closed"])
    plane.set_circuit("after", state="open")
    assert until(lambda: "after" in client.status()["circuits"]["not_closed"], 2.0)
    plane.set_circuit("after", state="closed")
    assert until(lambda: "after" not in client.status()["circuits"]["not_closed"], 2.0)


def test_a_gap_in_the_deltas_fetches_the_whole(plane, connect):
    client = connect(pace=type(FAST)(poll_circuits_s=60.0, poll_live_s=60.0))
    assert until(lambda: client.status()["feed"] == "live")
    plane.set_circuit("lost", tell=False, state="open")
    plane.set_circuit("told", state="open")
    assert until(lambda: {"lost", "told"} <= set(client.status()["circuits"]["not_closed"]), 3.0)


@pytest.mark.parametrize(
    "noise", [b"event: delta\ndata: {\n\n",
              b"event: circuits\ndata: []\n\n", b"data: \xff\n\n", b"event: config\ndata: 5\n\n",
              b"event: flush\ndata: {\"dependencies\": 3}\n\n", b": hb\n\n", b"event: unheard\ndata: {}\n\n"]
)  # fmt: skip
def test_noise_on_the_stream_harms_nothing(plane, connect, noise):
    client = connect()
    assert until(lambda: client.status()["feed"] == "live")
    plane.send_raw(noise)
    plane.set_circuit("after", state="open")
    assert until(lambda: "after" in client.status()["circuits"]["not_closed"], 3.0)


def test_the_stream_comes_back_after_it_was_lost(plane, connect):
    client = connect()
    assert until(lambda: client.status()["feed"] == "live")
    asked = len(plane.asked("stream"))
    plane.drop_streams()
    assert until(lambda: len(plane.asked("stream")) > asked)
    assert until(lambda: client.status()["feed"] == "live")


# -- the disk


def saved_by(plane: FakeControlPlane, directory, version: int) -> None:
    plane.config = config_document(version=version, tools=SIX)
    client = Client(plane.url, plane.key, cache_dir=directory, pace=FAST)
    assert until(lambda: client.status()["config"]["version"] == ["e1", version])
    assert until(lambda: list(directory.glob("*.json")))
    client.close(0.5)


@pytest.mark.case("C07")
def test_the_saved_copy_wins_over_the_built_in_one_and_is_not_rewritten(tmp_path):
    """C07: built-in v3, saved v9, no server; then a damaged copy; then the first answer, v10."""
    directory = tmp_path / "cache"
    with FakeControlPlane() as plane:
        saved_by(plane, directory, 9)
        port = plane.port
    [file] = directory.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    built_in = config_document(version=3)
    url, key = f"http://127.0.0.1:{port}", plane.key

    client = Client(url, key, cache_dir=directory, bootstrap=built_in, pace=FAST)
    status = client.status()["config"]
    assert status["version"] == ["e1", 9] and status["source"] == "disk" and status["age_s"] is not None
    assert status["stale_since"] is not None
    assert until(lambda: client.status()["problem"])
    client.close(0.2)
    assert file.read_bytes() == before

    file.write_bytes(before[:-20] + b"x" * 20)
    client = Client(url, key, cache_dir=directory, bootstrap=built_in, pace=FAST)
    assert client.status()["config"]["version"] == ["e1", 3]
    assert client.status()["config"]["source"] == "bootstrap"
    assert "checksum" in client.status()["cache"]["problem"]

    with FakeControlPlane(port=port) as plane:
        plane.config = config_document(version=10)
        assert until(lambda: client.status()["config"]["version"] == ["e1", 10])
        assert client.status()["config"]["source"] == "server"
        assert until(lambda: file.read_bytes() not in (before, before[:-20] + b"x" * 20))
        client.close(0.5)
    assert client.status()["cache"]["problem"] is None


def test_the_circuits_are_saved_too_with_their_age(tmp_path):
    with FakeControlPlane() as plane:
        plane.set_circuit("web_search", state="open", cause="failure_rate")
        client = Client(plane.url, plane.key, cache_dir=tmp_path, pace=FAST)
        assert until(lambda: any(b"web_search" in file.read_bytes() for file in tmp_path.glob("*.json")))
        client.close(0.5)
    again = Client(plane.url, plane.key, cache_dir=tmp_path, pace=FAST)
    assert "web_search" in again.status()["circuits"]["not_closed"]
    assert again.status()["circuits"]["source"] == "disk"
    again.close(0.1)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"\x00" * 100, b"0" * 64 + b"\n{}", "ü".encode() * 50])
def test_a_damaged_file_is_no_file(tmp_path, content):
    cache = DocumentCache(tmp_path, url="http://x", key="k")
    assert cache.path is not None
    cache.path.write_bytes(content)
    assert cache.load() is None
    assert cache.problem
    assert cache.save({"config": {}})
    assert cache.problem is None


def test_a_folder_that_cannot_be_written_is_said_and_is_no_error(tmp_path, plane, connect):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    client = connect(cache_dir=blocked / "below")
    assert until(lambda: client.status()["config"]["source"] == Source.SERVER.value)
    assert until(lambda: client.status()["cache"]["problem"])


def test_two_keys_share_no_file(tmp_path):
    one = DocumentCache(tmp_path, url="http://x", key="a")
    other = DocumentCache(tmp_path, url="http://x", key="b")
    assert one.path != other.path
    one.save({"config": {"a": 1}})
    assert other.load() is None
    assert [file.name for file in tmp_path.iterdir()] == [one.path.name]
