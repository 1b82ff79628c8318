"""Whether a stage can be deployed, and what to change if it cannot."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, get_type_hints
from urllib.parse import urlsplit

from fanfold.aws.senders import SenderRule
from fanfold.budgets import NoRoom

if TYPE_CHECKING:
    from .stages import Stage

LOCAL: Final = "local"  # the name of the stage for an engine on this machine
ANY_ORIGIN: Final = "*"  # API Gateway's word for the origins of all browser apps
# Claims of Cognito's access tokens that no user can change. Cognito never gives a `sub` to a second
# user; an operator may give a deleted user's `username` to another one.
POOL_CLAIMS: Final = ("sub", "username")
# API Gateway's quota for an authorizer, which cannot be raised.
MAX_AUDIENCES: Final = 50
# The tags that all services take; CloudFormation adds some of its own.
MAX_TAGS: Final = 40
# Lambda takes 4 KB of variables, of which a function's own need about half.
MAX_SENDERS_CHARS: Final = 1_500
# The CDK's placeholder for a value that it knows only later.
TOKEN: Final = r"\$\{Token\[[^\]]*\]\}"

DISCOVERY: Final = "/.well-known/openid-configuration"
# The needs of API Gateway's JWT authorizer.
ISSUER_NEEDS: Final = (
    f"API Gateway must be able to read ISSUER{DISCOVERY} from the internet, and verifies RSA "
    "signatures (such as RS256) only"
)
# Ends of names that are not on the internet.
PRIVATE: Final = (".internal", ".local", ".localhost")


class StageError(ValueError):
    """The stage cannot be deployed like this; the message says what to change."""


def check(stage: Stage) -> None:
    """Raise `StageError` if this cannot be deployed."""
    _check_fields(stage)
    _check_quota(stage)
    _check_budget(stage)
    _check_users(stage)
    _check_origins(stage)
    _check_senders(stage)
    _check_watchers(stage)
    _check_surroundings(stage)


def _check_fields(stage: Stage) -> None:
    for name, hint in get_type_hints(type(stage), include_extras=True).items():
        value = getattr(stage, name)
        for rule in getattr(hint, "__metadata__", ()):
            if value is not None and (fault := rule.fault(value)):
                raise StageError(f"{name!r} {fault}.")


def _check_quota(stage: Stage) -> None:
    for name in ("warm_write_units", "max_write_request_units"):
        units = getattr(stage, name)
        if units is not None and units > stage.write_quota:
            raise StageError(
                f"{name!r} is {units:,}, above the {stage.write_quota:,} write units a second that "
                "AWS lets one table take: ask AWS for a higher quota of the account, and once you "
                f"have it, say so with -c write_quota={units}."
            )


def _check_budget(stage: Stage) -> None:
    try:
        _ = stage.budget
    except NoRoom as error:
        raise StageError(
            f"'concurrency' is too low: {error} Give fewer workers, or ask AWS for a higher quota. "
            f"If the account has them, say so with -c concurrency={error.executions}."
        ) from None
    except ValueError as error:
        raise StageError(f"'bulk_concurrency' is too high: {error}") from None


def _check_users(stage: Stage) -> None:
    if stage.user_pool:
        if stage.jwt_issuer or stage.jwt_audience:
            raise StageError(
                "Users come either from the stack's own pool or from an issuer: give "
                "-c user_pool=false beside 'jwt_issuer' and 'jwt_audience', or leave those out."
            )
        if stage.user_claim not in POOL_CLAIMS:
            raise StageError(
                f"'user_claim' must be one of {', '.join(POOL_CLAIMS)} with a pool of the stack's "
                f"own, not {stage.user_claim!r}: its access tokens hold no other claim that users "
                "cannot choose themselves, and whoever chooses it reads that user's timeline."
            )
        return
    if stage.jwt_issuer is None:
        raise StageError(
            f"The stage {stage.name} does not say who its users are: name your OIDC issuer "
            f"({ISSUER_NEEDS}) with -c jwt_issuer=https://… -c jwt_audience=…, or choose a "
            "Cognito user pool of the stack's own, which is billed per user, with "
            "-c user_pool=true."
        )
    if fault := _issuer_fault(stage.jwt_issuer):
        raise StageError(fault)
    if not stage.jwt_audience:
        raise StageError(
            "'jwt_audience' is missing: name the audiences or client ids that tokens of the issuer "
            "carry, with commas between them; without, tokens for any other service would pass."
        )
    if len(stage.jwt_audience) > MAX_AUDIENCES:
        raise StageError(
            f"'jwt_audience' names {len(stage.jwt_audience)} audiences, and API Gateway takes at "
            f"most {MAX_AUDIENCES}."
        )


def _issuer_fault(issuer: str) -> str | None:
    """Why API Gateway would never accept a token of this issuer, judging by its address."""
    if re.match(r"\w+://[^/?#]*@", issuer):
        return (  # The address is not repeated, because of the password.
            "'jwt_issuer' must be the https address that the tokens carry as `iss`, without a "
            "user's name or password."
        )
    if not re.fullmatch(r"https://[^\s/?#]+[^\s?#]*", issuer):
        return (
            "'jwt_issuer' must be the https address that the tokens carry as `iss`, not "
            f"{issuer!r}."
        )
    if issuer.rstrip("/").endswith(DISCOVERY):
        return (
            "'jwt_issuer' must be the address that the tokens carry as `iss`, without "
            f"{DISCOVERY!r}: API Gateway appends it."
        )
    if not _is_public(_host(issuer)):
        return f"'jwt_issuer' must be an address on the internet, not {issuer!r}: {ISSUER_NEEDS}."
    return None


def _host(issuer: str) -> str:
    try:
        parts = urlsplit(issuer)
        _ = parts.port
        return parts.hostname or ""
    except ValueError:  # an IPv6 address without its end, or no number of a port
        return ""


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(PRIVATE)


def _check_origins(stage: Stage) -> None:
    if stage.name == LOCAL and stage.cors_origins == (ANY_ORIGIN,):
        return
    if not all(re.fullmatch(r"https?://[^\s/?#*]+", origin) for origin in stage.cors_origins):
        raise StageError(
            "'cors_origins' must be origins such as https://app.example.com, with commas "
            "between them and no path."
        )


def _check_senders(stage: Stage) -> None:
    for text in stage.senders:
        try:
            # A role of the app has its id only once it is deployed.
            SenderRule.read(re.sub(TOKEN, "AROAOFTHISAPP", text))
        except ValueError as error:
            raise StageError(
                "'senders' must be like AROAEXAMPLEID=news-* tv/news:*, with commas between "
                f"senders: {error}."
            ) from None
    if (length := len(",".join(stage.senders))) > MAX_SENDERS_CHARS:
        raise StageError(
            f"'senders' has {length:,} characters and may have {MAX_SENDERS_CHARS:,}, since Lambda "
            "limits the environment of a function. Use beginnings of ids, such as news-*."
        )


def _check_watchers(stage: Stage) -> None:
    workspace, channel = stage.slack_workspace_id, stage.slack_channel_id
    if (workspace is None) != (channel is None):
        raise StageError("Give 'slack_workspace_id' and 'slack_channel_id' both, or neither.")
    if workspace is not None and stage.name == LOCAL:
        raise StageError(
            "A local engine sends nothing to Slack: leave 'slack_workspace_id' and "
            "'slack_channel_id' out."
        )
    if stage.keep_data and not (stage.alarm_email or channel or stage.alarms_unwatched):
        raise StageError(
            f"Nobody would hear the alarms of the stage {stage.name}: give -c alarm_email=… for an "
            "e-mail, or -c slack_workspace_id=… -c slack_channel_id=… for Slack; in an app of your "
            "own, alarm_topic=…. If you watch them in another way, say so with -c "
            "alarms_unwatched=true."
        )


def _check_surroundings(stage: Stage) -> None:
    network = {
        "vpc_id": stage.vpc_id,
        "subnet_ids": stage.subnet_ids,
        "security_group_ids": stage.security_group_ids,
    }
    if any(network.values()) and not all(network.values()):
        raise StageError(f"Functions in a VPC need all of {', '.join(map(repr, network))}.")
    if (stage.domain_name is None) != (stage.certificate is None):
        raise StageError("Give 'domain_name' and 'certificate' both, or neither.")
    if stage.domain_name is None and not stage.default_endpoint:
        raise StageError(
            "Without 'domain_name', the address that API Gateway gives is the only one: leave "
            "'default_endpoint' out."
        )
    # IAM tells no two tags apart that differ only in case, and refuses the role that has both.
    names_of_tags = [tag.partition("=")[0].lower() for tag in stage.tags]
    if len(set(names_of_tags)) < len(names_of_tags) or len(names_of_tags) > MAX_TAGS:
        raise StageError(
            f"'tags' must name each tag once, in whatever case, and at most {MAX_TAGS}."
        )
    if stage.termination_protection and stage.first_deploy:
        raise StageError(
            "'first_deploy' is for a deploy without protections: give 'termination_protection' to "
            "the next one."
        )
