"""The stack: the construct and its outputs."""

from collections.abc import Callable

from aws_cdk import Annotations, IStackSynthesizer, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .follow_timeline import FollowTimeline
from .settings.stages import CONSTRUCT, Stage


class FanfoldStack(Stack):
    """One stage of Fanfold, in the account and region of the caller's credentials."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        synthesizer: IStackSynthesizer | None = None,
        # The functions' code; without it, an asset is made.
        code: Callable[["FanfoldStack"], lambda_.Code] | None = None,
    ) -> None:
        super().__init__(
            scope,
            id_,
            description="A follow timeline: post once, every follower reads it in one query.",
            termination_protection=stage.is_protected or stage.termination_protection,
            tags=stage.tagged or None,
            synthesizer=synthesizer,
        )
        self.timeline = FollowTimeline(self, CONSTRUCT, stage=stage, code=code and code(self))
        self.timeline.add_outputs()
        if stage.warm_write_units is not None:
            # Not a property of a resource; `fanfold preflight` compares it with the tables.
            warm = {"WarmWriteUnits": stage.warm_write_units}
            self.template_options.metadata = {"Fanfold": warm}
        if stage.keep_data and not stage.is_protected:
            Annotations.of(self).add_warning_v2(
                "fanfold:first-deploy",
                "Stack, tables and user pool have no protection from deletion. Once this deploy "
                "has succeeded, deploy again without first_deploy, which switches it on.",
            )
