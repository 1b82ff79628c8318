"""Deploy time: the only package that imports the AWS CDK; it reads the modules of `fanfold/`.

In a wheel it is `fanfold_cdk`. An app of somebody else needs the names below.
"""

from .embedding import TableOptions
from .follow_timeline import FollowTimeline
from .stage_checks import StageError
from .stages import DEV, PROD, Stage
from .users import Users

__all__ = ["DEV", "PROD", "FollowTimeline", "Stage", "StageError", "TableOptions", "Users"]
