"""Deploy time: the only package that imports the AWS CDK; it reads the modules of `fanfold/`.

In a wheel it is `fanfold_cdk`. An app of somebody else needs the names below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embedding.network import Network
    from .embedding.properties import Sender, TableOptions
    from .embedding.surroundings import Domain
    from .embedding.users import Users
    from .follow_timeline import FollowTimeline
    from .settings.checks import StageError
    from .settings.stages import DEV, PROD, Stage

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
    "DEV": "settings.stages",
    "Domain": "embedding.surroundings",
    "FollowTimeline": "follow_timeline",
    "Network": "embedding.network",
    "PROD": "settings.stages",
    "Sender": "embedding.properties",
    "Stage": "settings.stages",
    "StageError": "settings.checks",
    "TableOptions": "embedding.properties",
    "Users": "embedding.users",
}


def __getattr__(name: str) -> Any:
    # At its first use: the CDK takes seconds, and who only judges a stage does not need it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
