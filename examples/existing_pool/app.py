"""A timeline for the users of a pool that the app has already."""

from aws_cdk import App, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from fanfold_cdk import FollowTimeline, Users

app = App()
stack = Stack(app, "Shop")

pool = cognito.UserPool(stack, "Customers", removal_policy=RemovalPolicy.DESTROY)
web = pool.add_client(
    "Web", auth_flows=cognito.AuthFlow(admin_user_password=True), disable_o_auth=True
)

timeline = FollowTimeline(
    stack,
    "Timeline",
    users=Users.of_pool(pool, web, claim="username"),
    removal_policy=RemovalPolicy.DESTROY,
    concurrency=10,
)
timeline.add_outputs()
app.synth()
