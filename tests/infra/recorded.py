"""The templates of stages as they were last written: a change of what is deployed is a diff.

`python -m tests.infra.recorded` writes `recorded.json`: of the default stage all, and of the others
what differs from it. A test is for what has a reason beyond that.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.infra.template import Template, synthesized

RECORDED = Path(__file__).with_name("recorded.json")
ASSET = "the asset"
# The contexts of the stages, which `conftest` describes.
STAGES: dict[str, dict[str, str]] = {
    "dev": {},
    "prod": {
        "stage": "prod",
        "jwt_issuer": "https://issuer.example.com/",
        "jwt_audience": "timeline,web",
        "user_claim": "email",
        "cors_origins": "https://app.example.com",
        "warm_write_units": "20000",
        "max_write_request_units": "30000",
        "contributor_insights": "true",
        "alarm_email": "operators@example.com",
        "large_fanout_days": "2",
    },
    "pooled": {"stage": "prod", "user_pool": "true", "alarms_unwatched": "true"},
    "chosen": {
        "user_claim": "username",
        "post_readers": "publisher",
        "follower_readers": "users",
        "backfill": "0",
        "retention_days": "1",
        "transport": "boto3",
        "streams": "true",
        "contributor_insights": "true",
        "daily_write_units": "1000000",
        "requests_per_second": "12000",
        "slack_workspace_id": "T0123ABCDEF",
        "slack_channel_id": "C0123ABCDEF",
        "permissions_boundary": "arn:aws:iam::123456789012:policy/teams/developers",
        "concurrency": "100",
        "max_write_request_units": "10000",
        "publish_concurrency": "3",
        "express_concurrency": "40",
        "bulk_concurrency": "10",
        "relation_concurrency": "2",
    },
    "shared": {"channel_threshold": "100000"},
}


@cache
def recorded() -> dict[str, Template]:
    """The parts of each stage's template; `None` is what dev alone has."""
    whole = {name: _simple(synthesized(**context)) for name, context in STAGES.items()}
    dev = whole.pop("dev")
    return {"dev": dev, **{name: _changed(dev, each) for name, each in whole.items()}}


def _simple(template: Template) -> Template:
    """Without the key of the asset, which changes with the code."""
    parts = {kind: dict(template.get(kind, {})) for kind in ("Resources", "Outputs", "Metadata")}
    for id_, resource in parts["Resources"].items():
        properties = resource.get("Properties", {})
        if "S3Key" in properties.get("Code", {}):
            properties = {**properties, "Code": ASSET}
            parts["Resources"][id_] = {**resource, "Properties": properties}
    return parts


def _changed(before: Any, after: Any) -> Any:
    """What differs, member by member; whatever else differs is as it is after."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    return {
        name: _changed(before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def as_text(templates: dict[str, Template]) -> str:
    """As the file has it."""
    return json.dumps(templates, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    RECORDED.write_text(as_text(recorded()), encoding="utf-8")
