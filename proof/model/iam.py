"""IAM: which permissions a call needs, and whether a policy grants them.

Sources: "Actions, resources, and condition keys" of DynamoDB, SQS and Lambda in the Service
Authorization Reference; "using IAM with DynamoDB transactions"; "policy evaluation logic" and "IAM
JSON policy elements" in the IAM User Guide; "key management" of SQS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from botocore import xform_name

from proof.model.sqs.messages import ACCOUNT, REGION

Json = dict[str, Any]

# A transaction has no action; each part needs the action of the corresponding single call.
TRANSACTED = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "Get": "GetItem",
    "ConditionCheck": "ConditionCheckItem",
}
# A batch to a queue needs the action of the single call; a batch to a table has its own action for
# puts and deletes.
IN_BATCHES = re.compile(r"^(SendMessage|DeleteMessage|ChangeMessageVisibility)Batch$")

# Actions on the key of an encrypted table.
OF_READERS = ("Decrypt", "DescribeKey")
OF_WRITERS = (
    *OF_READERS,
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)


Context: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
LEADING_KEYS = "dynamodb:LeadingKeys"
# A service adds its own name to the calls that it makes to a key for its caller:
# https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service
VIA_SERVICE = "kms:ViaService"
# Lambda adds it to calls of a function's code, but not to its own calls with the role:
# https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
SOURCE_FUNCTION = "lambda:SourceFunctionArn"


class Need(NamedTuple):
    """An action on a resource, and the values for conditions of policies."""

    action: str  # such as dynamodb:PutItem
    resource: str  # an ARN
    context: Context = ()  # values by condition key


class Unknown(Exception):
    """A policy or call uses something that this model does not know."""


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def needs(service: str, operation: str, request: Mapping[str, Any]) -> frozenset[Need]:
    """What IAM checks for a call, by the name of its method, such as `put_item`.

    Raises `Unknown` for a service other than DynamoDB, SQS and Lambda.
    """
    if service == "dynamodb":
        return frozenset(_of_tables(_wire_name(operation), request))
    if service == "sqs":
        name = IN_BATCHES.sub(r"\1", _wire_name(operation))
        queue = str(request["QueueUrl"]).rpartition("/")[2]
        return frozenset({Need(f"sqs:{name}", arn("sqs", queue))})
    if service == "lambda":
        mapping = arn("lambda", f"event-source-mapping:{request['UUID']}")
        return frozenset({Need(f"lambda:{_wire_name(operation)}", mapping)})
    raise Unknown(f"{service}.{operation}")


def _of_tables(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    if operation.startswith("Transact"):
        context = (("dynamodb:EnclosingOperation", (operation,)),)
        for item in request["TransactItems"]:
            ((kind, part),) = item.items()
            yield Need(f"dynamodb:{TRANSACTED[kind]}", _table(part["TableName"]), context)
    elif "Key" in request:
        yield Need(f"dynamodb:{operation}", _table(request["TableName"]), _leading(request["Key"]))
    elif "RequestItems" in request:
        for name in request["RequestItems"]:
            yield Need(f"dynamodb:{operation}", _table(name))
    else:
        # Only the index: permission for the table does not include its indexes, nor vice versa.
        index = f"/index/{request['IndexName']}" if "IndexName" in request else ""
        yield Need(f"dynamodb:{operation}", _table(request["TableName"]) + index)


def _leading(key: Mapping[str, Any]) -> Context:
    """The partition key of a call to one row, if the model knows it.

    If the table also has a sort key, the model cannot distinguish the two.
    """
    if len(key) > 1:
        return ()
    ((value,),) = (each.values() for each in key.values())
    return ((LEADING_KEYS, (str(value),)),)


def needs_of_key(need: Need, key: str) -> frozenset[Need]:
    """The needs of a call for the key (an ARN) that encrypts its table or queue.

    Writing a table needs DynamoDB's documented minimum for a principal. Reading it needs permission
    to decrypt the table's own key.
    """
    service, _, name = need.action.partition(":")
    actions: tuple[str, ...] = ()
    if service == "sqs":
        actions = {
            "SendMessage": ("GenerateDataKey", "Decrypt"),
            "ReceiveMessage": ("Decrypt",),
        }.get(name, ())
    elif service == "dynamodb":
        is_read = name in ("GetItem", "BatchGetItem", "Query", "Scan", "ConditionCheckItem")
        actions = OF_READERS if is_read else OF_WRITERS
    via = ((VIA_SERVICE, (f"{service}.{REGION}.amazonaws.com",)),)
    return frozenset(Need(f"kms:{action}", key, via) for action in actions)


def _table(name: str) -> str:
    return arn("dynamodb", f"table/{name}")


def _wire_name(method: str) -> str:
    name = "".join(word.title() for word in method.split("_"))
    assert xform_name(name) == method
    return name


@dataclass(frozen=True)
class Grant:
    """One action on one resource of a statement; both may have wildcards."""

    action: str
    resource: str
    allows: bool = True
    condition: Json = field(default_factory=dict, hash=False)

    def covers(self, need: Need) -> bool:
        """Whether the statement covers this need; raises `Unknown` for unknown conditions."""
        return (
            _matches(self.action.lower(), need.action.lower())
            and _matches(self.resource, need.resource)
            and all(
                _holds(operator, key, wanted, dict(need.context))
                for operator, keys in self.condition.items()
                for key, wanted in keys.items()
            )
        )


def grants(policy: Json) -> list[Grant]:
    """The grants in a policy document; raises `Unknown`."""
    found = []
    for statement in _listed(policy["Statement"]):
        if unknown := statement.keys() - {"Sid", "Effect", "Action", "Resource", "Condition"}:
            raise Unknown(f"{sorted(unknown)} in a policy's statement")
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                if "${" in f"{action}{resource}{statement.get('Condition')}":
                    raise Unknown(f"a variable in {statement}")
                allows = statement["Effect"] == "Allow"
                condition = statement.get("Condition", {})
                found.append(Grant(action, resource, allows, condition))
    return found


def is_allowed(need: Need, held: Sequence[Grant]) -> bool:
    """Whether at least one grant allows it and none denies it."""
    covering = [grant for grant in held if grant.covers(need)]
    return bool(covering) and all(grant.allows for grant in covering)


def _holds(operator: str, key: str, wanted: Any, context: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a condition holds; a key that the request lacks satisfies `…IfExists`."""
    if operator == "Null":
        return (key not in context) is (str(wanted).lower() == "true")
    quantifier, _, name = operator.rpartition(":")
    bare = name.removesuffix("IfExists")
    if bare not in _OPERATORS or quantifier not in ("", "ForAnyValue", "ForAllValues"):
        raise Unknown(f"the condition operator {operator}")
    found = context.get(key)
    if found is None:
        return quantifier == "ForAllValues" or name != bare or bare in _NEGATED
    holds = (
        any(_OPERATORS[bare](str(each), value) for each in _listed(wanted)) != (bare in _NEGATED)
        for value in found
    )
    return any(holds) if quantifier == "ForAnyValue" else all(holds)


def _matches(pattern: str, text: str) -> bool:
    """Whether a pattern with `*` and `?` matches the whole text."""
    parts = re.split(r"([*?])", pattern)
    wild = {"*": ".*", "?": "."}
    return (
        re.fullmatch("".join(wild.get(part, re.escape(part)) for part in parts), text) is not None
    )


def _equal(wanted: str, found: str) -> bool:
    return wanted == found


def _equal_bool(wanted: str, found: str) -> bool:
    return wanted.lower() == found.lower()


_OPERATORS = {
    "StringEquals": _equal,
    "StringNotEquals": _equal,
    "StringLike": _matches,
    "StringNotLike": _matches,
    "ArnEquals": _matches,
    "ArnLike": _matches,
    "Bool": _equal_bool,
}
_NEGATED = frozenset({"StringNotEquals", "StringNotLike"})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
