"""Deploy time: the only package that imports the AWS CDK; it reads the modules of `fanfold/`.

In a wheel it is `fanfold_cdk`. An app of somebody else needs the names below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embedding import Sender, TableOptions
    from .follow_timeline import FollowTimeline
    from .network import Network
    from .stage_checks import StageError
    from .stages import DEV, PROD, Stage
    from .surroundings import Domain
    from .users import Users

__all__ = [
    "DEV",
    "PROD",
    "Domain",
    "FollowTimeline",
    "Network",
    "Sender",
    "Stage",
    "StageError",
    "TableOptions",
    "Users",
]

_HOMES = {
    "DEV": "stages",
    "Domain": "surroundings",
    "FollowTimeline": "follow_timeline",
    "Network": "network",
    "PROD": "stages",
    "Sender": "embedding",
    "Stage": "stages",
    "StageError": "stage_checks",
    "TableOptions": "embedding",
    "Users": "users",
}


def __getattr__(name: str) -> Any:
    # At its first use: the CDK takes seconds, and who only judges a stage does not need it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
