"""Names that others rely on: metrics, alarms and dashboards outside this repository."""

import re
from pathlib import Path

from fanfold import names
from proof.mutants import listing

RELIABILITY = Path(__file__).parents[3] / "docs/reliability.md"


def test_the_public_metrics_keep_their_names() -> None:
    assert names.METRICS_NAMESPACE == "Fanfold"
    assert names.ENTRIES_DELIVERED == "EntriesDelivered"
    assert names.DELIVERY_SECONDS == "DeliverySeconds"
    assert [(names.LANE, lane.lane) for lane in names.LANES] == [
        ("lane", "express"),
        ("lane", "bulk"),
    ]
    assert names.FANOUTS_STALLED == "FanoutsStalled"
    assert names.FANOUTS_ABANDONED == "FanoutsAbandoned"
    assert names.FANOUTS_VOIDED == "FanoutsVoided"
    assert names.OLDEST_SMALL_OPEN_SECONDS == "OldestSmallOpenSeconds"
    assert names.OLDEST_LARGE_OPEN_SECONDS == "OldestLargeOpenSeconds"
    assert names.OLDEST_DEAD_LETTER_SECONDS == "OldestDeadLetterSeconds"
    assert (names.CHANNELS, names.CHANNELS_REFUSED) == ("Channels", "ChannelsRefused")
    assert (names.GROWTHS, names.GROWTHS_REFUSED) == ("Growths", "GrowthsRefused")
    assert names.INVARIANT_BROKEN == "InvariantBroken"


def test_every_guard_that_the_docs_name_is_in_the_list_of_mutants() -> None:
    named = [
        guard
        for row in RELIABILITY.read_text().splitlines()
        for guards in re.findall(r"M: (.*?)[;|]", row)
        for guard in re.findall(r"\*([^*]+)\*", guards)
    ]
    assert len(named) > 10
    guards = [each.name for each in listing.read() if each.is_guard]
    assert not [each for each in named if not any(each in guard for guard in guards)]
