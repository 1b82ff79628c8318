"""The main job through all functions, each in a process of its own that has the asset alone."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fanfold import clock, names
from fanfold.settings import Settings
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.database import Database
from proof.model.endpoint import Request, answering_from
from proof.model.lambda_events import sqs_event
from proof.model.sqs import client as sqs
from tests.compat.calls import CREATIONS
from tests.service import event
from tests.wire.conftest import REGION, Certificates, environment
from tests.wire.server import Call, Reply, reply, serving

INVOKE = Path(__file__).with_name("invoke.py")
# Emulated, an import takes twenty times as long.
TIMEOUT_SECONDS = 300
# As long as the token of a Lambda role.
TOKEN = "IQoJb3JpZ2luX2VjE/+=" * 50


@dataclass
class Ran:
    """What the functions have sent, by module, and where they ran, as (machine, Python)."""

    calls: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    places: set[tuple[str, str]] = field(default_factory=set)
    answers: dict[str, list[Any]] = field(default_factory=dict)


def run(
    python: Sequence[str], asset: Path, tls: Certificates, cache: Path, *, transport: str
) -> Ran:
    """Bob follows ada, she posts twice, and he reads her posts; RELATE and SWEEP look on.

    PLAN delivers the first post itself, and leaves the second to DELIVER.

    `python` starts a Python, and `cache` is a folder for its bytecode. The model answers over TLS.
    """
    ran, tables = Ran(), dynamodb.Client(Database(Clock(start_ms=clock.now_ms())))
    for table in names.TABLES:
        tables.create_table(**CREATIONS[table.name])
    queues = sqs.Queues(tables.state.clock)
    settings = Settings(
        **{table.setting: table.name for table in names.TABLES},  # type: ignore[arg-type]
        **_urls(queues),  # type: ignore[arg-type]
        transport=transport,
    )
    backend = answering_from(tables, sqs.Client(queues))

    def answer(call: Call) -> Reply:
        headers = {name.lower(): value for name, value in call.headers}
        found = backend(Request(call.operation, headers, call.body))
        return reply(found.body, f"{found.status} as the model says")

    with serving(answer, context=tls.context) as server:
        env = environment(
            server.url,
            AWS_DEFAULT_REGION=REGION,  # as Lambda does; boto3 reads no other
            AWS_SESSION_TOKEN=TOKEN,
            AWS_CA_BUNDLE=tls.authority,
            AWS_CONFIG_FILE="/dev/null",
            AWS_SHARED_CREDENTIALS_FILE="/dev/null",
            POWERTOOLS_SERVICE_NAME="fanfold",
            **settings.to_env(),
        )

        def invoke(function: names.Function, *events: Any) -> None:
            before = len(server.calls)
            isolated = ["-I", "-S", "-X", f"pycache_prefix={cache}"]
            done = subprocess.run(
                [*python, *isolated, str(INVOKE), str(asset), function.name],
                input="\n".join(map(json.dumps, events)),
                env=env,
                cwd=cache,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
            assert done.returncode == 0, f"{function.name}:\n{done.stderr[-3000:]}"
            said = json.loads(done.stdout.splitlines()[-1])
            ran.calls[function.name] += server.calls[before:]
            ran.places.add((said["machine"], said["python"]))
            ran.answers[function.name] = said["answers"]

        def work(queue: names.Queue) -> None:
            tables.state.clock.advance(names.API.seconds + 1)  # RELATE's orders are delayed
            url = getattr(settings, queue.url_setting)
            received = sqs.Client(queues).receive_message(
                QueueUrl=url,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
                MaxNumberOfMessages=10,
            )
            first, *redelivered = received["Messages"]
            for message in redelivered:  # PLAN plans its fan-out from the start
                message["Attributes"]["ApproximateReceiveCount"] = "2"
            invoke(queue.consumer, sqs_event(queue.name, [first, *redelivered]))

        again = _now("api/publish_post_without_key")
        invoke(names.API, _now("api/follow"), _now("api/publish_post"), again)
        for queue in (names.RELATION, names.PUBLISH, names.EXPRESS):
            work(queue)
        invoke(names.TIMELINE, _now("timeline/read_timeline"))
        invoke(names.SWEEP, event("schedule/sweep"))
    return ran


def _urls(queues: sqs.Queues) -> dict[str, str]:
    """Make the queues; their URLs by setting."""
    urls: dict[str, str] = {}
    for queue in names.QUEUES:
        url, dlq_url = queues.create_with_dlq(
            queue.name, max_receives=queue.max_receives, visibility_seconds=360
        )
        urls |= {queue.url_setting: url, queue.dlq_url_setting: dlq_url}
    return urls


def _now(name: str) -> dict[str, Any]:
    """An event of events/ that arrives now."""
    request = event(name)
    request["requestContext"]["timeEpoch"] = clock.now_ms()
    return request
