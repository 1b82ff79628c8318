"""A long command of the simulation goes on where it was interrupted."""

from pathlib import Path

from proof.simulation.tally import Tally


def test_seeds_that_are_done_in_any_order_are_kept_with_what_they_came_to(tmp_path: Path) -> None:
    tally, path = Tally(10), tmp_path / "folder" / "all.json"
    for seed in (12, 10, 14):
        tally.add(
            seed, transport="boto3", faults={"hot": 2}, reached={"stalled": 3}, is_broken=seed == 12
        )
    tally.save(path, "this code")
    found = Tally.load(path, "this code")
    assert found == tally
    assert found is not None
    assert [seed for seed in range(9, 16) if seed not in found] == [9, 11, 13, 15]
    assert (found.done, found.broken, found.faults) == (3, [12], {"hot": 6})
    assert (found.reached, found.reached_by) == ({"stalled": 9}, {"stalled": 3})
    found.add(11, transport="libcurl", faults={}, reached={}, is_broken=False)
    assert (found.end, found.beyond) == (13, {14})


def test_results_of_other_code_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    assert Tally.load(path, "new") is None
    tally = Tally(0)
    tally.add(0, transport="boto3", faults={}, reached={}, is_broken=False)
    tally.save(path, "old")
    assert Tally.load(path, "new") is None
