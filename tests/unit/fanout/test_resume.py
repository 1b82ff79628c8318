"""The resume of a segment as text in the ledger, which sorts by progress."""

from hypothesis import given
from hypothesis import strategies as st

from fanfold.fanout.backlog import Resume
from fanfold.fanout.segment_size import MAX_SEGMENTS
from fanfold.fanout.worker_steps import max_stragglers_of
from fanfold.follows import ring

# Where a worker can stop: on the ring, or behind a whole segment.
ENDS = [ring.START, ring.behind_all("8" + "0" * 15), ring.behind_all(ring.END)]
on_the_ring = st.integers(0, ring.RING_SIZE - 1).map(lambda number: f"{number:016x}")
positions = st.sampled_from(ENDS) | on_the_ring
MOST = 10**10 - 1
counts = st.integers(0, 11) | st.integers(0, MOST - 1)
stragglers = st.lists(positions, max_size=25).map(tuple)
resumes = st.builds(Resume, positions, counts, stragglers)


@given(resumes)
def test_a_resume_is_read_back_from_its_text(resume: Resume) -> None:
    assert Resume.from_text(resume.to_text()) == resume


@given(resumes, resumes)
def test_the_text_that_sorts_later_is_further_on(one: Resume, other: Resume) -> None:
    mine, theirs = ((each.position, each.written, each.stragglers) for each in (one, other))
    # DynamoDB compares bytes.
    assert (one.to_text().encode() > other.to_text().encode()) is (mine > theirs)


def test_the_text_is_position_count_and_stragglers() -> None:
    # The next release reads rows that this one wrote.
    resume = Resume("0123456789abcdef", 42, ("00000000000000ff", "0123456789abcdee"))
    assert resume.to_text() == "0123456789abcdef.0000000042.00000000000000ff.0123456789abcdee"


def test_the_ledgers_row_holds_the_resumes_of_all_segments() -> None:
    """Even if each of 512 segments hands back all stragglers allowed; a row may be 400 KB."""
    stragglers = ("0" * 16,) * max_stragglers_of(MAX_SEGMENTS)
    text = Resume("0" * 16, 5_000, stragglers).to_text()
    each = len(str(MAX_SEGMENTS)) + len(text) + 1 + len(str(MAX_SEGMENTS)) + 1
    assert MAX_SEGMENTS * each < 250 * 1024
