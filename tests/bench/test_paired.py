"""Paired measuring: the order of the blocks, and the ratio of their times."""

from proof.bench.paired import Contestant, compare, paired


def test_the_contestants_take_turns_as_a_b_b_a_and_are_made_ready_for_what_is_measured() -> None:
    blocks: list[str] = []

    def contestant(name: str) -> Contestant:
        return Contestant(
            name, lambda: blocks.append(name), units=1, ready=lambda: blocks.append("-")
        )

    found = compare(contestant("a"), contestant("b"), rounds=2, what="a test")
    assert "".join(blocks) == "ab" + 2 * "-a-b-b-a"  # the first two are not measured
    assert found.pairs == 4


def test_the_ratio_is_the_median_of_the_ratios_of_pairs() -> None:
    found = paired([(1.0, 40.0), (2.0, 90.0), (1.0, 50.0), (1.0, 44.0), (1.0, 5_000.0)])
    assert found.ratio == 45
    assert found.low <= found.ratio <= found.high
    assert (found.ours, found.theirs) == (1.0, 50.0)
