"""The stack: the construct and its outputs."""

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.follow_timeline import FollowTimeline
from infra.stages import Stage


class FanfoldStack(Stack):
    """One stage of Fanfold, in the account and region of the caller's credentials."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            id_,
            description="A follow timeline: post once, every follower reads it in one query.",
            termination_protection=stage.keep_data,
        )
        self.timeline = FollowTimeline(self, "Fanfold", stage=stage)
        for name, value in self.timeline.outputs.items():
            CfnOutput(self, name, value=value)
