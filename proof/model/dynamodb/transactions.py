"""TransactWriteItems. Source: its API reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from proof.model.client import Answer, Request
from proof.model.dynamodb.capacity import consumed
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.partitions import Key
from proof.model.dynamodb.writes import CONFLICT, Change, read_delete, read_put, read_update
from proof.model.errors import Invalid, Refused

MAX_TRANSACTION = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
# How long DynamoDB remembers a client's request token.
TOKEN_SECONDS = 10 * 60
# Preparing and committing: each item of a transaction counts twice.
TRANSACTIONAL = 2

READERS: dict[str, Callable[[Database, Request], Change]] = {
    "Put": read_put,
    "Update": lambda database, request: read_update(database, request)[0],
    "Delete": read_delete,
    "ConditionCheck": lambda database, request: read_delete(database, request, checks_only=True),
}


def transact_write_items(database: Database, request: Request) -> Answer:
    """Change up to 100 distinct items: all of them, or none.

    Readers may see one item changed before another, even with consistent reads ("Isolation levels"
    of the Developer Guide). Until all are changed, nobody else can change them.
    """
    token = request.get("ClientRequestToken")
    if token in database.in_progress:
        raise Refused(
            "TransactionInProgressException",
            "The transaction with the given request token is already in progress.",
        )
    if token and _was_done(database, token, request["TransactItems"]):
        return {}
    changes = _read(database, request["TransactItems"])
    reasons = [_locked(database, change) or _try(change) for change in changes]
    if sum(change.size for change in changes) > MAX_TRANSACTION_BYTES:
        raise Invalid("The items of a transaction cannot have more than 4 MB together")
    charges = [
        charge._replace(units=charge.units * TRANSACTIONAL)
        if charge.resource.index_name is None
        else charge
        for change in changes
        for charge in change.charges
    ]
    if throttles := database.charge(charges):
        for change, reason in zip(changes, reasons, strict=True):
            if any(each.resource.startswith(change.table.resource.arn) for each in throttles):
                reason.update(Code="ThrottlingError", Message="Throughput exceeds the capacity.")
    codes = [reason["Code"] for reason in reasons]
    if set(codes) != {"None"}:
        raise Refused(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons "
            f"[{', '.join(codes)}]",
            {"CancellationReasons": reasons},
        )
    _make(database, changes, request)
    return consumed(request, charges)


def _make(database: Database, changes: Sequence[Change], request: Request) -> None:
    """Lock the items and make the changes, perhaps one by one."""
    token, places = request.get("ClientRequestToken"), {change.place for change in changes}
    waiting = len(changes)

    def make(change: Change) -> None:
        nonlocal waiting
        change.make()
        waiting -= 1
        if waiting:
            return
        database.locked -= places
        if token:
            database.in_progress.discard(token)
            until = database.clock.now + TOKEN_SECONDS
            database.tokens[token] = (request["TransactItems"], until)

    database.locked |= places
    if token:
        database.in_progress.add(token)
    steps: list[Callable[[], None]] = [partial(make, change) for change in changes]
    if database.hooks.appear is not None:
        database.hooks.appear(steps)
    else:
        for step in steps:
            step()


def _was_done(database: Database, token: str, actions: Sequence[Any]) -> bool:
    known, until = database.tokens.get(token, (None, 0.0))
    if until < database.clock.now:
        return False
    if known != actions:
        raise Refused(
            "IdempotentParameterMismatchException",
            "The client request token was used with other parameters",
        )
    return True


def _read(database: Database, actions: Sequence[Request]) -> list[Change]:
    if not 1 <= len(actions) <= MAX_TRANSACTION:
        raise Invalid.length("transactItems", f"between 1 and {MAX_TRANSACTION}")
    changes: dict[tuple[str, Key], Change] = {}
    for action in actions:
        if len(action) != 1:
            raise Invalid("TransactItems can only contain one of Check, Put, Update or Delete")
        ((verb, request),) = action.items()
        change = READERS[verb](database, request)
        if change.place in changes:
            raise Invalid("Transaction request cannot include multiple operations on one item")
        changes[change.place] = change
    return list(changes.values())


def _locked(database: Database, change: Change) -> dict[str, Any]:
    """The cancellation reason if another transaction has locked the item; else empty."""
    if change.place not in database.locked:
        return {}
    return {"Code": "TransactionConflict", "Message": CONFLICT}


def _try(change: Change) -> dict[str, Any]:
    """Try a change; return the reason why it cancels the transaction, or the code `None`."""
    try:
        change.attempt()
    except Invalid as invalid:
        return {"Code": "ValidationError", "Message": invalid.message}
    if change.passes:
        return {"Code": "None"}
    message = "The conditional request failed"
    return {"Code": "ConditionalCheckFailed", "Message": message, **change.found}
