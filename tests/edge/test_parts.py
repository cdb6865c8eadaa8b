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


def test_what_others_admitted_is_taken_out_of_ones_own_bucket():
    ours, theirs, total = CallCap(), CallCap(), 0
    most = int(caps.CALLS_A_SECOND * caps.BURST_S)
    for cap in (ours, theirs):
        assert cap.admits(1, 1000)

    def exchange(cap):
        nonlocal total
        for key_id, calls in cap.claimed().items():
            total += calls
            cap.heard(key_id, calls, total)

    for cap in (ours, theirs):
        exchange(cap)
    assert theirs.admits(1, most // 2)
    exchange(theirs)
    assert ours.admits(1, 1)
    exchange(ours)

    assert not ours.admits(1, most // 2 + caps.CALLS_A_SECOND)
    assert ours.claimed() == {}


def test_a_shared_counter_that_was_lost_costs_nobody_anything():
    cap = CallCap()
    assert cap.admits(1, 10)
    cap.heard(1, 10, 30_000)
    before = cap.left(1)

    cap.heard(1, 5, 5)

    assert cap.left(1) >= before


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
