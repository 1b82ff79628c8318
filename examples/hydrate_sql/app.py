"""A timeline of ids: what they mean is in the app's own database (read.py)."""

from aws_cdk import App, RemovalPolicy, Stack
from fanfold_cdk import FollowTimeline, Users

app = App()
stack = Stack(app, "Shop")
timeline = FollowTimeline(
    stack,
    "Timeline",
    users=Users.own_pool(claim="username"),
    removal_policy=RemovalPolicy.DESTROY,
    concurrency=10,
)
timeline.add_outputs()
app.synth()
