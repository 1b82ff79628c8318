"""Tables and queues as values, and what one call does to them: the model decides, once for each.

A table's content has a number, and so has a call. What a call does to the same contents is looked
up the second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from botocore.exceptions import ClientError

from fanfold import names
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.database import Database
from proof.model.sqs import client as sqs
from proof.model.sqs.client import Queues
from proof.simulation.exhaustive.calls import AwsCall, CallAnswer, content_of, number_of, text_of
from proof.simulation.world.schemas import schema_of

# The number of each table's content, and of the tokens of transactions.
Contents: TypeAlias = tuple[int, ...]

TABLES = {table.name: number for number, table in enumerate(names.TABLES)}
TOKENS = len(TABLES)


class Sent(NamedTuple):
    """A message as it was sent."""

    queue: str
    body: str
    group: str
    delay_seconds: float


class Effect(NamedTuple):
    answer: CallAnswer
    contents: Contents
    sent: tuple[Sent, ...] = ()


class Store:
    """All contents that were ever seen, and the effects of calls on them."""

    def __init__(self) -> None:
        self.items: dict[int, list[Any]] = {}  # by the number of a table's content
        self.empty: Contents = tuple(self._keep([]) for _ in range(TOKENS + 1))
        self._effects: dict[tuple[int, ...], Effect] = {}
        self._sent: dict[int, Effect] = {}
        self._places: dict[int, list[int]] = {}

    def apply(self, contents: Contents, call: AwsCall) -> Effect:
        """The effect of a call; a refused one has none but its answer."""
        if call.service == "lambda":
            return Effect(CallAnswer.of({"State": "Enabled"}), contents)
        if call.service == "sqs":
            found = self._sent.get(call.number)
            if found is None:
                found = self._sent[call.number] = self._send(call)
            return found._replace(contents=contents)
        places = self._places.get(call.number)
        if places is None:
            places = self._places[call.number] = touched(call)
        key = (call.number, *(contents[place] for place in places))
        known = self._effects.get(key)
        if known is None:
            known = self._effects[key] = self._change(contents, call, places)
        after = list(contents)
        for place, number in zip(places, known.contents, strict=True):
            after[place] = number
        return Effect(known.answer, tuple(after))

    def rows(self, contents: Contents, table: names.Table) -> list[dict[str, Any]]:
        """The items of a table, in the form of the wire."""
        return self.items[contents[TABLES[table.name]]]

    def _change(self, contents: Contents, call: AwsCall, places: list[int]) -> Effect:
        database = Database(Clock())
        client = dynamodb.Client(database, validates=False)
        for table in names.TABLES:
            place = TABLES[table.name]
            if place in places:
                database.create(schema_of(table))
                for item in self.items[contents[place]]:
                    client.put_item(TableName=table.name, Item=item)
        if TOKENS in places:
            for token, actions in self.items[contents[TOKENS]]:
                database.tokens[token] = (actions, database.clock.now + 1)
        answer = _answer(client, call)
        after = []
        for place in places:
            if place == TOKENS:
                known = ([token, actions] for token, (actions, _) in database.tokens.items())
                after.append(self._keep(known))
            else:
                name = names.TABLES[place].name
                after.append(self._keep(client.scan(TableName=name)["Items"]))
        return Effect(answer, tuple(after))

    def _send(self, call: AwsCall) -> Effect:
        if call.operation == "receive_message":  # of dead letters, which SWEEP only reports
            return Effect(CallAnswer.of({}), ())
        queues = Queues(Clock())
        queue = queues.queue(queues.create(call.request["QueueUrl"].rpartition("/")[2]))
        answer = _answer(sqs.Client(queues, validates=False), call)
        sent = tuple(
            Sent(queue.name, message.body, message.group or "", message.delay_seconds or 0.0)
            for message in queue.messages()
        )
        return Effect(answer, (), sent)

    def _keep(self, items: Iterable[Any]) -> int:
        texts = sorted(map(text_of, items))
        number = number_of(*texts)
        if number not in self.items:
            self.items[number] = [content_of(text) for text in texts]
        return number


def _answer(client: Any, call: AwsCall) -> CallAnswer:
    try:
        answer = getattr(client, call.operation)(**call.request)
    except ClientError as error:
        return CallAnswer.of(error)
    return CallAnswer.of(content_of(text_of(answer)))


def touched(call: AwsCall) -> list[int]:
    """The places of the contents on which the effect of a call depends."""
    request = call.request
    if call.operation == "transact_write_items":
        actions = [next(iter(action.values())) for action in request["TransactItems"]]
        return [*sorted({TABLES[action["TableName"]] for action in actions}), TOKENS]
    tables = request.get("RequestItems") or (request["TableName"],)
    return sorted(TABLES[name] for name in tables)
