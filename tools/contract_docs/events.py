"""The example event of each route, as API Gateway sends it: made of one that is kept by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fanfold import contract
from fanfold.ids import ref_id_for
from tools.contract_docs.operations import OPERATIONS

EVENTS = Path(__file__).parents[2] / "events"
TEMPLATE = EVENTS / "timeline/read_timeline_page.json"
IDS = {"publisher_id": "ada", "ref_id": ref_id_for("ada", "post-1")}
# What ada asks as a publisher; bob asks the rest.
OF_PUBLISHERS = (
    contract.RETRACT_POST,
    contract.SHOW_DELIVERY,
    contract.LIST_FOLLOWERS,
    contract.COUNT_FOLLOWERS,
)


def examples() -> dict[Path, Any]:
    """Events by their files, such as `api/list_muted.json`; a body is written by hand."""
    return {
        EVENTS / route.door / f"{_in_snake_case(each.id)}.json": _event(route)
        for route, each in OPERATIONS.items()
        if each.request is None
    }


def _in_snake_case(name: str) -> str:
    return re.sub("(?=[A-Z])", "_", name).lower()


def _event(route: contract.Route) -> Any:
    event = json.loads(TEMPLATE.read_text())
    ids = {name: IDS[name] for name in re.findall(r"{(\w+)}", route.path)}
    path, context = route.path.format(**ids), event["requestContext"]
    event |= {"routeKey": route.key, "rawPath": path, "rawQueryString": "", "pathParameters": ids}
    for absent in ("queryStringParameters", *(() if ids else ("pathParameters",))):
        del event[absent]
    context["routeKey"] = route.key
    context["http"] |= {"method": route.method, "path": path}
    user = "ada" if route in OF_PUBLISHERS else "bob"
    context["authorizer"]["jwt"]["claims"] |= {"sub": user, "username": user}
    return event
