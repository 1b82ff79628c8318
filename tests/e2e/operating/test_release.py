"""The files of a release, deployed by CloudFormation alone on an engine of their own."""

from pathlib import Path

import pytest

from fanfold_cli import aws
from fanfold_cli.local import deploy, engine
from fanfold_cli.local.home import Home
from fanfold_cli.local.template import API_TYPE
from fanfold_cli.stack import Deployment, outputs_of
from fanfold_cli.users.sign_in import sign_in
from infra.settings.stages import LOCAL
from tests.e2e.clients import User, eventually
from tests.lifetimes import LIFETIME_HOURS

STACK, BUCKET = "Fanfold-plain", "code-of-functions"


@pytest.mark.slow
def test_template_and_code_of_a_release_are_a_timeline_without_cdk(tmp_path: Path) -> None:
    # Here: importing the CDK takes seconds, of each process that collects tests.
    from infra import release

    # Its functions run on this machine; otherwise they are those of a release.
    release.write(tmp_path / "dist", machine=LOCAL)
    (template,) = (tmp_path / "dist").glob("*-dev.template.json")
    (code,) = (tmp_path / "dist").glob("*.zip")
    home = Home(tmp_path / "home")
    home.claim()
    state = engine.start(home, lifetime_seconds=LIFETIME_HOURS * 3600, port=None)
    try:
        stack = deployed(state.local_endpoint, template, code)
        publisher, follower = (
            User(stack, each.sub, each.token)
            for each in (sign_in(stack, name) for name in ("publisher", "follower"))
        )
        follower.follow(publisher)
        post = publisher.publish(body={"title": "Hello"})
        eventually(lambda: follower.ref_ids() == [post["ref_id"]])
    finally:
        deploy.take_down(home)


def deployed(endpoint: aws.LocalEndpoint, template: Path, code: Path) -> Deployment:
    """What the commands of docs/embedding.md do, and what the engine needs besides."""
    account = Deployment(aws.LOCAL_REGION, endpoint, {})
    s3, cloudformation = account.client("s3"), account.client("cloudformation")
    s3.create_bucket(Bucket=BUCKET)
    for path in (template, code):
        s3.upload_file(str(path), BUCKET, path.name)
    cloudformation.create_stack(
        StackName=STACK,
        TemplateURL=f"https://s3.amazonaws.com/{BUCKET}/{template.name}",
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": "CodeBucket", "ParameterValue": BUCKET}],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=STACK, WaiterConfig={"Delay": 1}
    )
    outputs = outputs_of(cloudformation.describe_stacks(StackName=STACK)["Stacks"][0])
    made = cloudformation.describe_stack_resources(StackName=STACK)["StackResources"]
    (api,) = (each["PhysicalResourceId"] for each in made if each["ResourceType"] == API_TYPE)
    return Deployment(
        aws.LOCAL_REGION, endpoint, {**outputs, "ApiUrl": f"{endpoint.url}/_aws/execute-api/{api}"}
    )
