"""All checks of an ordinary run, in order."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from proof.simulation.checks import (
    alarms,
    answers,
    audit,
    backfills,
    edits,
    entries,
    follows,
    ledger,
    posts,
    rows,
    work,
)
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.reading import (
    audiences,
    markers,
    shown_posts,
    shown_publishers,
    upwards,
)
from proof.simulation.world.world import World

Check: TypeAlias = Callable[[Evidence], Iterator[str]]


def nothing_was_observed_during_the_run(found: Evidence) -> Iterator[str]:
    """Violations that were observed during the run."""
    yield from found.world.observer.violations


CHECKS: tuple[Check, ...] = (
    entries.no_acknowledged_follower_is_missed,
    entries.nobody_gets_what_they_do_not_follow,
    rows.posts_are_stored_as_they_were_sent,
    rows.what_was_retracted_leaves_a_tombstone,
    rows.fanouts_agree_with_their_posts,
    rows.entries_agree_with_their_fanouts,
    rows.channels_are_in_the_head,
    rows.edges_lie_where_they_are_read,
    rows.follows_are_kept,
    rows.rates_are_used_up_for_their_period_at_most,
    posts.every_accepted_post_is_delivered_or_visibly_not,
    posts.posts_are_accepted_when_they_were_sent,
    posts.nobody_publishes_over_http_faster_than_the_rate,
    posts.a_post_that_was_retracted_first_is_not_delivered,
    posts.only_its_publisher_retracts_a_post_that_exists,
    ledger.the_ledger_is_right,
    ledger.every_post_that_is_shown_is_owed_to_all,
    ledger.what_an_operator_ended_stays_ended,
    ledger.publishers_are_told_what_the_ledger_says,
    shown_posts.every_reading_shows_what_it_should,
    shown_posts.timelines_show_what_they_should,
    shown_posts.posts_are_shown_as_they_were_sent,
    shown_publishers.readers_are_shown_whom_they_follow,
    shown_publishers.mutes_are_bounded,
    audiences.publishers_are_told_what_they_chose,
    audiences.all_is_shown_to_whom_publishers_let,
    audiences.lists_agree_with_relations,
    markers.markers_only_move_up,
    markers.what_is_unread_is_counted,
    backfills.a_new_follow_brings_the_newest_posts,
    backfills.nothing_else_is_filled_in,
    upwards.readers_who_page_upwards_miss_nothing,
    posts.a_key_stands_for_one_post,
    edits.posts_are_shown_with_their_latest_edit,
    edits.edits_are_refused_with_reason,
    edits.feeds_show_what_was_published,
    edits.posts_are_found_by_themselves,
    answers.nobody_is_refused_without_reason,
    follows.follows_change_as_they_were_asked_to,
    follows.lists_of_follows_are_what_was_asked_for,
    follows.edges_agree_with_the_lists_of_follows,
    follows.follows_are_counted,
    follows.readers_know_the_channels_of_whom_they_follow,
    follows.follows_are_listed_with_their_time,
    audit.an_audit_finds_nothing,
    alarms.a_late_post_rings_its_alarm,
    alarms.a_calm_world_rings_no_alarm,
    alarms.a_calm_world_reports_how_long_each_delivery_took,
    work.dead_letters_are_noise_or_were_tried_out,
    work.small_faults_need_no_sweep,
    work.writes_are_in_proportion,
    work.stragglers_have_nobody_written_again,
    entries.a_last_post_reaches_every_follower_once,
    follows.publishers_are_told_who_follows_them,
    nothing_was_observed_during_the_run,
)


def violations(world: World, checks: Iterable[Check] = CHECKS) -> list[str]:
    """The violations of a run, each with the name of its check."""
    found = Evidence(world)
    return [line for check in checks for line in _said(check, found)]


def _said(check: Check, found: Evidence) -> Iterator[str]:
    """The violations that a check finds; an exception is one, too, and hides no other."""
    try:
        for line in check(found):
            yield f"{check.__name__}: {line}"
    except Exception:  # noqa: BLE001 - an exception is a violation
        yield f"{check.__name__} cannot judge: {traceback.format_exc()}"
