"""The CDK app: `cdk deploy -c stage=dev`, or prod, or local for a local engine."""

import sys

from aws_cdk import App

from infra.settings.checks import StageError
from infra.settings.context import choose
from infra.stack import FanfoldStack


def main() -> None:
    """Synthesize the stage that the context names."""
    app = App()
    try:
        stage = choose(app.node.get_all_context())
    except StageError as error:
        sys.exit(str(error))
    FanfoldStack(app, stage.stack_id, stage=stage)
    app.synth()


if __name__ == "__main__":
    main()
