"""What a worker leaves to the next one when it stops before all is read and written."""

from __future__ import annotations

from fanfold.fanout.backlog import Backlog
from fanfold.fanout.batch_retries import Retries
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage

EDGES = sorted(ring.edge(f"f-{number}") for number in range(40))
POSITIONS = [ring.position_of(edge) for edge in EDGES]
# The range begins at the 20th follower; those before it were the business of an earlier worker.
START, END = POSITIONS[20], ring.END


def backlog(*stragglers: str, start: str = START) -> Backlog:
    return Backlog(0, start, END, Retries(lambda: 0.5), stragglers)


def read(work: Backlog, edges: list[str], *, more: bool = False) -> None:
    wanted = work.next_read(64)
    assert wanted
    assert all(wanted.after < edge < wanted.hi for edge in edges)
    work.page_read(wanted, EdgePage(edges, more))


def send(work: Backlog, unwritten: int = 0) -> None:
    """Write a batch, of which the first ones are left unprocessed."""
    batch, edges = work.begin_batch(0.0)
    del work.in_flight[batch]
    work.retries.add(edges[:unwritten], 0.0)


def test_stragglers_that_were_never_read_are_handed_back() -> None:
    late = (POSITIONS[3], POSITIONS[7], POSITIONS[11])
    work = backlog(*late)
    assert work.rest(25) == (START, 0, late)
    read(work, [EDGES[3]])
    send(work)
    assert work.rest(25) == (START, 1, late[1:]), "one of them is written, two are not even read"


def test_all_stragglers_of_the_worker_before_travel_on_however_few_may() -> None:
    late = (POSITIONS[3], POSITIONS[7], POSITIONS[11])
    assert backlog(*late).rest(1) == (START, 0, late)


def test_a_position_that_is_not_behind_is_no_straggler() -> None:
    work = backlog(POSITIONS[20], POSITIONS[25])
    read(work, EDGES[20:])
    send(work)
    assert work.is_empty
    assert work.edges_read == 20


def test_edges_that_were_read_and_not_sent_are_the_rest_and_no_stragglers() -> None:
    work = backlog(start=ring.START)
    read(work, EDGES)
    send(work)
    assert work.rest(25) == (POSITIONS[25], 25, ())


def test_the_last_edges_wait_for_the_next_page_so_that_batches_are_full() -> None:
    work = backlog(start=ring.START)
    read(work, EDGES[:30], more=True)
    assert work.batch_size(0.0) == 25
    send(work)
    assert work.batch_size(0.0) == 0
    read(work, EDGES[30:])
    assert work.batch_size(0.0) == 15


def test_an_entry_is_a_hot_key_once_it_was_refused_twice() -> None:
    retries = Retries(lambda: 0.5)
    found = [retries.is_hot_key("edge")]
    for _ in range(3):
        retries.add(["edge"], 0.0)
        found.append(retries.is_hot_key("edge"))
    assert found == [False, False, True, True]
