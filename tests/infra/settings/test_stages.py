"""Stages are data; a wrong one is refused with a sentence."""

import platform
import re
import sys
from dataclasses import replace
from typing import get_type_hints

import pytest

from fanfold.budgets import Budget
from infra.settings.checks import StageError
from infra.settings.context import choose
from infra.settings.stages import DEV, LOCAL, PROD, STAGES, VERIFY, Stage

WATCHED = {"alarm_email": "operators@example.com"}
ISSUER = {"user_pool": "false", "jwt_issuer": "https://id.example.com", "jwt_audience": "a"}


def with_context(**context: object) -> Stage:
    return choose(context)


def test_a_stage_is_chosen_by_its_name_and_dev_is_the_default() -> None:
    assert with_context() == with_context(stage="dev") == DEV
    assert with_context(stage="local") == LOCAL
    # A stage to verify may have a name, and so a stack of its own.
    assert with_context(stage="verify-anna") == replace(VERIFY, name="verify-anna")
    assert not VERIFY.keep_data
    for name in ("", "staging", "verify-", "verify-Anna", "dev-anna", f"verify-{'a' * 21}"):
        said = f"There is no stage '{name}'; choose one of dev, prod"
        with pytest.raises(StageError, match=said):
            with_context(stage=name)


def test_every_number_of_a_stage_has_bounds_or_choices() -> None:
    numbers = {name for name, kind in get_type_hints(Stage).items() if kind in (int, int | None)}
    assert numbers == {"log_retention_days", *(name for name, *_ in BOUNDS)}


def test_prod_requires_a_choice_of_its_users() -> None:
    with pytest.raises(StageError, match=r"RSA.*jwt_issuer=.*jwt_audience=.*user_pool=true"):
        with_context(stage="prod")
    assert with_context(stage="prod", user_pool="true", **WATCHED).user_pool


@pytest.mark.parametrize(
    "typed",
    [
        {"jwt_audience": "a, b", "bulk_concurrency": "4", "user_pool": "false"},
        # As cdk.json may have them.
        {"jwt_audience": ["a", "b"], "bulk_concurrency": 4, "user_pool": False},
    ],
)
def test_prod_may_have_an_issuer_of_ones_own(typed: dict[str, object]) -> None:
    issuer = "https://id.example.com"
    stage = with_context(stage="prod", jwt_issuer=issuer, user_claim="email", **typed, **WATCHED)
    assert (stage.jwt_issuer, stage.jwt_audience) == (issuer, ("a", "b"))
    assert (stage.user_claim, stage.bulk_concurrency) == ("email", 4)


@pytest.mark.parametrize("context", [{"stage": "prod"}, {"stage": "dev", "keep_data": "true"}])
def test_a_stage_that_keeps_its_data_requires_a_receiver_of_alarms(context: dict[str, str]) -> None:
    context = {"user_pool": "true", **context}
    with pytest.raises(
        StageError, match=r"Nobody would hear .*alarm_email=.*alarms_unwatched=true"
    ):
        with_context(**context)
    for heard in (
        WATCHED,
        {"slack_workspace_id": "T0123", "slack_channel_id": "C0123"},
        {"alarms_unwatched": "true"},
    ):
        assert with_context(**context, **heard).keep_data


def test_with_the_stacks_own_pool_the_user_is_what_cognito_fixes() -> None:
    for claim in ("sub", "username"):
        assert with_context(user_claim=claim).user_claim == claim
    assert with_context(stage="dev").user_claim == "sub"
    assert with_context(stage="local").user_claim == "username", "a sub cannot be chosen"


BOUNDS = [
    (name, *map(int, re.findall(r"\d+", rule.words)))
    for name, hint in get_type_hints(Stage, include_extras=True).items()
    for rule in getattr(hint, "__metadata__", ())
    if rule.words.startswith("from ")
]


@pytest.mark.parametrize(("name", "low", "high"), BOUNDS)
def test_a_number_beyond_its_bounds_is_refused_with_both(name: str, low: int, high: int) -> None:
    for number in (low - 1, high + 1):
        said = f"'{name}' must be from {low} to {high}, not {number}."
        with pytest.raises(StageError, match=re.escape(said)):
            with_context(**{name: str(number)})
    roomy = {"concurrency": 100_000, "write_quota": 10_000_000, "user_pool": True, **WATCHED}
    for number in (low, high):
        if not name.endswith("concurrency"):  # whose most is more than a lane can use
            stage = with_context(**{**roomy, name: number})
            assert getattr(stage, name) == number


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"user_pool": "perhaps"}, "'user_pool' must be true or false, not 'perhaps'"),
        ({"warm_write_units": "many"}, "'warm_write_units' must be a whole number"),
        (
            {"warm_write_units": "40001"},
            "'warm_write_units' is 40,001, above the 40,000 .* ask AWS .* -c write_quota=40001",
        ),
        (
            {"max_write_request_units": "60000", "write_quota": "50000"},
            "'max_write_request_units' is 60,000, above the 50,000 .* -c write_quota=60000",
        ),
        (
            {"bulk_concurrency": "137", "warm_write_units": "4000", "concurrency": "1000"},
            "'bulk_concurrency' is too high: At a write capacity of 4,000 .* at most 136 workers",
        ),
        ({"transport": "aiohttp"}, "'transport' must be one of libcurl, boto3, not 'aiohttp'"),
        ({"post_readers": "all"}, "'post_readers' must be one of users, publisher, not 'all'"),
        ({"follower_readers": "all"}, "'follower_readers' must be one of users, publisher, not"),
        (
            {"express_concurrency": "20"},
            r"'concurrency' is too low: .* express 20, .* Of 10 .* 8 are theirs.*concurrency=33\.",
        ),
        (
            {"stage": "prod", "concurrency": "20", "bulk_concurrency": "16"},
            r"too low: .*\(publish 2, express 2, bulk 16, relation 2\).* 16 are theirs",
        ),
        ({"concurrency": "9" * 5_000}, "'concurrency' must be a whole number"),
        ({"log_retention_days": "8"}, "'log_retention_days' must be one of 1, 3, .*, not 8"),
        ({"user_claim": "two words"}, "'user_claim' must be the name of a claim"),
        ({"user_claim": ""}, "'user_claim' is empty"),
        # Of an unset variable of a shell: it would bind nobody.
        ({"senders": ""}, "'senders' is empty"),
        ({"user_claim": "email"}, "'user_claim' must be one of sub, username .* not 'email'"),
        ({"jwt_issuer": "https://id.example.com"}, "give -c user_pool=false beside 'jwt_issuer'"),
        ({**ISSUER, "jwt_audience": ""}, "'jwt_audience' is missing"),
        (
            {**ISSUER, "jwt_audience": ",".join("a" * 51)},
            "names 51 .* API Gateway takes at most 50",
        ),
        ({**ISSUER, "jwt_issuer": "id.example.com"}, "'jwt_issuer' must be the https"),
        *(
            (
                {**ISSUER, "jwt_issuer": issuer},
                f"an address on the internet, not '{re.escape(issuer)}': .*RSA",
            )
            for issuer in (
                "https://keycloak/realms/a",
                "https://login.corp.internal",
                "https://10.0.0.7/realms/a",
                "https://[fd00::7]/realms/a",
                "https://[fd00::7",
                "https://id.example.com:x/realms/a",
            )
        ),
        *(
            (
                {**ISSUER, "jwt_issuer": f"{scheme}://somebody:secret@id.example.com"},
                "that the tokens carry as `iss`, without a user's name or password.$",
            )
            for scheme in ("https", "http")
        ),
        (
            {**ISSUER, "jwt_issuer": "https://id.example.com/.well-known/openid-configuration"},
            "without '/.well-known/openid-configuration'",
        ),
        ({"cors_origins": "https://a.example/path"}, "'cors_origins' must be origins"),
        ({"cors_origins": "*"}, "'cors_origins' must be origins"),
        ({"stage": "local", "cors_origins": "*,http://a.example"}, "'cors_origins' must be"),
        ({"alarm_email": "nobody"}, "'alarm_email' must be an e-mail address"),
        ({"slack_workspace_id": "T0123"}, "Give 'slack_workspace_id' and 'slack_channel_id' both"),
        ({"slack_workspace_id": "Ours", "slack_channel_id": "C0123"}, "'slack_workspace_id' must"),
        ({"slack_workspace_id": "T0123", "slack_channel_id": "#ours"}, "'slack_channel_id' must"),
        (
            {"stage": "local", "slack_workspace_id": "T0123", "slack_channel_id": "C0123"},
            "A local engine sends nothing to Slack",
        ),
    ],
)
def test_a_bad_value_is_refused_with_its_name(context: dict[str, str], sentence: str) -> None:
    with pytest.raises(StageError, match=sentence):
        with_context(**context)


def test_the_local_stage_is_dev_on_the_runtime_of_this_machine() -> None:
    own = ("user_claim", "cors_origins")
    fixed = ("runtime", "architecture", "wheel_platform", "metric_math", *own)
    same = {name: getattr(DEV, name) for name in fixed}
    assert replace(LOCAL, name="dev", **same) == DEV
    assert LOCAL.python_version == ".".join(map(str, sys.version_info[:2]))
    arm = platform.machine().lower() in ("aarch64", "arm64")
    assert LOCAL.architecture == ("arm64" if arm else "x86_64")
    assert LOCAL.wheel_platform.startswith("aarch64-" if arm else "x86_64-")


def test_aws_runs_one_python_on_arm() -> None:
    for name in ("runtime", "architecture", "wheel_platform", "metric_math"):
        with pytest.raises(StageError, match=f"no context value '{name}'; there are stage, like, "):
            choose({name: "x86_64"})
    for stage in (DEV, PROD):
        assert (stage.python_version, stage.architecture) == ("3.14", "arm64")
        assert stage.wheel_platform.startswith("aarch64-manylinux")


def test_the_budget_divides_the_maximum_or_the_warm_throughput_or_the_quota() -> None:
    contexts: list[tuple[dict[str, object], int]] = [
        ({}, 40_000),
        ({"warm_write_units": "20000"}, 20_000),
        ({"max_write_request_units": "30000"}, 30_000),
        ({"warm_write_units": "20000", "max_write_request_units": "5000"}, 5_000),
        ({"write_quota": "60000"}, 40_000),
        ({"write_quota": "60000", "warm_write_units": "60000"}, 60_000),
    ]
    for context, capacity in contexts:
        stage = with_context(**context)
        assert stage.write_capacity == capacity, context
        assert stage.budget == Budget.of(capacity, concurrency=10)


def test_dev_fits_a_new_account_and_prod_asks_for_what_its_capacity_needs() -> None:
    dev, prod = (with_context(stage=name, user_pool="true", **WATCHED) for name in ("dev", "prod"))
    assert (dev.concurrency, dev.budget.all_workers) == (10, 8)
    assert (prod.concurrency, prod.budget) == (None, Budget.of(40_000))
    few = with_context(stage="prod", user_pool="true", concurrency="100", **WATCHED)
    assert few.budget == Budget.of(40_000, concurrency=100)


def test_contributor_insights_are_off_and_libcurl_is_the_transport_unless_asked_for() -> None:
    defaults = {(stage.contributor_insights, stage.transport) for stage in STAGES.values()}
    assert defaults == {(False, "libcurl")}
    for name in ("dev", "local"):
        stage = with_context(stage=name, contributor_insights="true", transport="boto3")
        assert (stage.contributor_insights, stage.transport) == (True, "boto3")


def test_a_misspelt_context_value_is_refused_with_a_suggestion() -> None:
    for key, meant in (
        ("retention_dayss", "retention_days"),
        ("first-deploy", "first_deploy"),
        ("firstDeploy", "first_deploy"),
        ("FIRST_DEPLOY", "first_deploy"),
    ):
        with pytest.raises(StageError, match=f"no context value '{key}'; did you mean '{meant}'"):
            choose({key: "true"})


def test_context_values_of_the_cdk_are_ignored() -> None:
    own = {
        "@aws-cdk/core:checkSecretUsage": True,
        "aws:cdk:bundling-stacks": [],
        "availability-zones:account=1:region=us-east-1": [],
        "acknowledged-issue-numbers": [1],
        "cdk-migrate": True,
    }
    assert choose(own) == choose({})


def test_a_stage_of_any_name_is_like_another() -> None:
    assert with_context(name="staging", like="dev") == replace(DEV, name="staging")
    like_prod = with_context(name="staging", like="prod", user_pool="true", **WATCHED)
    assert (like_prod.name, like_prod.keep_data) == ("staging", True)
    assert like_prod.stack_id == "Fanfold-staging"


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        *(
            (context, "-c name=staging -c like=prod")
            for context in (
                {"name": "staging"},
                {"like": "prod"},
                {"name": "staging", "like": "local"},
                {"name": "staging", "like": []},
                {"name": "staging", "like": "prod", "stage": "dev"},
            )
        ),
        ({"name": "prod", "like": "dev"}, "'prod' is a stage already"),
        ({"name": "verify-anna", "like": "dev"}, "'verify-anna' is a stage already"),
        # It is a part of names of stacks and metrics.
        ({"name": "1", "like": "dev"}, "'name' must be letters, digits and hyphens"),
        ({"name": "a_b", "like": "dev"}, "'name' must be letters, digits and hyphens"),
        ({"name": "a" * 51, "like": "dev"}, "'name' must be letters, digits and hyphens"),
    ],
)
def test_a_stage_of_ones_own_needs_a_model_and_a_name_that_nobody_has(
    context: dict[str, object], sentence: str
) -> None:
    with pytest.raises(StageError, match=sentence):
        with_context(**context)


def test_a_stack_may_have_any_name() -> None:
    assert with_context(stage="dev", stack_name="Timelines").stack_id == "Timelines"
    with pytest.raises(StageError, match="'stack_name' must be letters"):
        with_context(stage="dev", stack_name="my stack")


def test_senders_are_given_with_commas_between_them() -> None:
    stage = with_context(senders="AROAEXAMPLEID=news-* tv, AIDAEXAMPLEID=*")
    assert stage.senders == ("AROAEXAMPLEID=news-* tv", "AIDAEXAMPLEID=*")


def test_a_sender_that_nothing_can_be_and_more_than_the_environment_holds_are_refused() -> None:
    with pytest.raises(StageError, match="'senders' must be like AROAEXAMPLEID=news"):
        with_context(senders="arn:aws:iam::123456789012:role/news=*")
    text = ",".join(f"AROAEXAMPLEID{number:03}=news-{number}-*" for number in range(80))
    with pytest.raises(StageError, match=r"'senders' has .* and may have 1,500"):
        with_context(senders=text)
