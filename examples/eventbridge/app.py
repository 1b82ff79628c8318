"""What the shop says on its event bus becomes posts: nobody calls the timeline."""

from aws_cdk import App, CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from fanfold_cdk import FollowTimeline, Users

app = App()
stack = Stack(app, "Shop")
bus = events.EventBus(stack, "Bus")

timeline = FollowTimeline(
    stack,
    "Timeline",
    users=Users.own_pool(claim="username"),
    removal_policy=RemovalPolicy.DESTROY,
    concurrency=10,
)
# The detail of such an event is a message of the publish queue:
# {"version": 1, "type": "post.published", "publisher_id": "…", "ref_id": "…", "body": {…}}
timeline.publish_events(
    "Articles",
    event_bus=bus,
    event_pattern=events.EventPattern(source=["shop"], detail_type=["post.published"]),
)
timeline.add_outputs()
CfnOutput(stack, "BusName", value=bus.event_bus_name)
app.synth()
