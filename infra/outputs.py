"""What clients and operators need to know of a timeline, by public name."""

from collections.abc import Mapping

from fanfold import names

from .api import HttpDoor
from .identity import Identity
from .stages import Stage
from .tables import HouseTable
from .work_queue import WorkQueue


def stack_outputs(
    stage: Stage,
    *,
    http: HttpDoor,
    identity: Identity,
    tables: Mapping[names.Table, HouseTable],
    queues: Mapping[names.Queue, WorkQueue],
) -> dict[str, str]:
    """The outputs of a stack with one timeline."""
    outputs = {names.API_URL_OUTPUT: http.url}
    if http.domain is not None:
        outputs[names.API_DOMAIN_TARGET_OUTPUT] = http.domain.regional_domain_name
    if identity.pool is not None and identity.client is not None:
        outputs[names.USER_POOL_ID_OUTPUT] = identity.pool.user_pool_id
        outputs[names.USER_POOL_CLIENT_ID_OUTPUT] = identity.client.user_pool_client_id
    if stage.channel_threshold:
        outputs[names.CHANNEL_THRESHOLD_OUTPUT] = str(stage.channel_threshold)
    for table, placed in tables.items():
        outputs[table.output] = placed.table_name
        if table.heard_by_others and stage.streams:
            # CDK has an address for every table, with a stream or not.
            assert placed.table_stream_arn is not None
            outputs[table.stream_output] = placed.table_stream_arn
    for queue, work in queues.items():
        outputs[queue.url_output] = work.queue.queue_url
        outputs[queue.dlq_url_output] = work.dead_letters.queue_url
    return outputs
