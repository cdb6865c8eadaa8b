"""The small parts: caps, load, limits, and the pool's bounds."""

from controlplane.edge import limits, stream
from controlplane.edge.load import LEAST_S, MOST_S, Load
from controlplane.services.ingest import caps
from controlplane.services.ingest.caps import CallCap


def test_a_key_s_calls_are_refilled_by_elapsed_time():
    cap = CallCap()
    most = int(caps.CALLS_A_SECOND * caps.BURST_S)

    assert cap.admits(1, most, now_s=0.0)
    assert not cap.admits(1, 1, now_s=0.0)
    assert cap.admits(2, 1, now_s=0.0)
    assert cap.admits(1, caps.CALLS_A_SECOND, now_s=1.0)
    assert not cap.admits(1, most + 1, now_s=1000.0)


def test_clients_are_asked_to_wait_longer_while_answers_take_longer():
    load = Load()
    assert load.flush_s == LEAST_S

    for _ in range(50):
        load.took(0.3)
    busy = load.flush_s
    for _ in range(200):
        load.took(30.0)

    assert LEAST_S < busy < MOST_S
    assert load.flush_s == MOST_S
    for _ in range(200):
        load.took(0.01)
    assert load.flush_s == LEAST_S


def test_streams_leave_room_for_everything_else():
    limits.raise_open_files()

    assert 1 <= limits.most_streams() <= limits.WANTED


def test_more_streams_than_fit_are_sent_elsewhere(agent, monkeypatch):
    monkeypatch.setattr(stream.limits, "most_streams", lambda: 1)
    first = agent.stream()
    first.events.next("circuits")

    assert agent.stream().status == 503
    assert first.status == 200
