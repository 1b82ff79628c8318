"""Checks the values of `fanfold local up -c` before anything is started or synthesized.

Run as `python -m infra.settings.local_context NAME=VALUE...`. It exits with 1 and a sentence on
stderr if the stage `local` cannot be deployed with these values.
"""

import sys
from collections.abc import Mapping
from typing import Final

from .checks import LOCAL, StageError
from .context import FIXED, choose

_ITS_USERS: Final = (
    "users of a local engine come from its own pool and are known by their names, so that `fanfold "
    "token`, `demo` and `seed` find them"
)
_ITS_PLACE: Final = "its functions and its API are processes on this machine"
_ITS_DATA: Final = "the data of a local engine ends with it"
# Settings of deploys to AWS, and why a local engine does not have them.
CANNOT: Final = {
    **dict.fromkeys(("user_pool", "jwt_issuer", "jwt_audience", "user_claim"), _ITS_USERS),
    **dict.fromkeys(("keep_data", "first_deploy"), _ITS_DATA),
    "alarm_email": "a local engine sends no e-mail",
    **dict.fromkeys(("slack_workspace_id", "slack_channel_id"), "it sends nothing to Slack"),
    **dict.fromkeys(FIXED, "it follows from this machine"),
    "stack_name": "a local engine has one stack",
    "termination_protection": _ITS_DATA,
    "kms_key": "a local engine encrypts nothing",
    "permissions_boundary": "a local engine asks for no rights",
    **dict.fromkeys(("vpc_id", "subnet_ids", "security_group_ids"), _ITS_PLACE),
    **dict.fromkeys(("domain_name", "certificate", "default_endpoint"), _ITS_PLACE),
}


def check(values: Mapping[str, str]) -> None:
    """Raise `StageError` if the stage `local` cannot be deployed with these context values."""
    if "stage" in values:
        raise StageError(
            "A local engine has the stage 'local' and no other: leave 'stage' out, and give the "
            "values in which yours differs."
        )
    for name in values:
        if name in CANNOT:
            raise StageError(f"{name!r} cannot be set here: {CANNOT[name]}. Leave it out.")
    choose({"stage": LOCAL, **values})


def main(arguments: list[str]) -> None:
    """Check values in the form `NAME=VALUE`."""
    try:
        check(dict(argument.split("=", 1) for argument in arguments))
    except StageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
