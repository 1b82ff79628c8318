"""A CDK app with a timeline of its own users; `cdk deploy` makes it."""

from aws_cdk import App, RemovalPolicy, Stack
from fanfold_cdk import FollowTimeline, Users

app = App()
stack = Stack(app, "Shop")
timeline = FollowTimeline(
    stack, "Timeline", users=Users.own_pool(), removal_policy=RemovalPolicy.DESTROY, concurrency=10
)
timeline.add_outputs()
app.synth()
