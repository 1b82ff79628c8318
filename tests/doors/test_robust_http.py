"""Whatever is sent to a route: an answer that is documented, no 5xx, and nothing half-written."""

from __future__ import annotations

import pytest

from fanfold.contract import ROUTES, Route
from tests.doors.cases import every, few_or_many_of_a_route
from tests.doors.service import Doors, Json
from tests.doors.strategies import http_requests


@few_or_many_of_a_route
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.key)
def test_any_request_is_answered_as_documented_and_a_refused_one_changes_nothing(
    seeded: Doors, route: Route, cases: int
) -> None:
    before = seeded.account.dump(), seeded.account.queued()

    is_new = True

    def check(request: Json) -> None:
        nonlocal is_new
        if not is_new:
            seeded.reset()
        is_new = False
        answer = seeded.http(route, request.pop("user"), **request)  # documented, or it fails
        assert not seeded.faults.found
        assert answer.status < 500, answer.text
        after = seeded.account.dump(), seeded.account.queued()
        if answer.status >= 400:
            assert answer.body["detail"].endswith(".")
        if answer.status >= 400 or route.method == "GET":
            assert after == before
        if after != before:
            seeded.settle()
            assert not seeded.faults.found
            assert not any(seeded.letters(name) for name in ("Publish", "Relation"))
        else:
            is_new = True

    every(cases, http_requests(route), check)
