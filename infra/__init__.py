"""Deploy time: the only package that imports the AWS CDK; it reads the modules of `fanfold/`.

In a wheel it is `fanfold_cdk`. Apps that embed a timeline need the names below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embedding.network import Network as Network
    from .embedding.properties import Sender as Sender
    from .embedding.properties import TableOptions as TableOptions
    from .embedding.surroundings import Domain as Domain
    from .embedding.users import Users as Users
    from .follow_timeline import FollowTimeline as FollowTimeline
    from .settings.checks import StageError as StageError
    from .settings.stages import DEV as DEV
    from .settings.stages import PROD as PROD
    from .settings.stages import Stage as Stage

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
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported at first use: the CDK takes seconds, and checking a stage does not need it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
