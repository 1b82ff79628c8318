"""Reads the stage from the CDK's context: `-c stage=prod`, and `-c field=value` for a field.

Any other stage is like `dev` or `prod`: `-c name=staging -c like=prod`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, get_type_hints

from .checks import StageError
from .stages import DEV, PROD, STAGES, Stage, find

# No context value overrides these: they define the stage. `name` makes another one.
FIXED: Final = ("name", "runtime", "architecture", "wheel_platform", "metric_math")
# Without senders, everybody may send: so an empty value, perhaps of an unset variable, is refused.
BINDING: Final = ("senders",)
_TYPES: Final = get_type_hints(Stage)
# The stages that another one may be like.
_MODELS: Final = {stage.name: stage for stage in (DEV, PROD)}


def choose(context: Mapping[str, Any]) -> Stage:
    """The stage that the context names, with its overrides; raises `StageError`."""
    _check_keys(context)
    stage = _base(context)
    overrides = {
        name: _read(name, value)
        for name in _TYPES
        if name not in FIXED and (value := context.get(name)) is not None
    }
    chosen = replace(stage, **overrides)
    chosen.check()
    return chosen


def _base(context: Mapping[str, Any]) -> Stage:
    own, like, chosen = context.get("name"), context.get("like"), context.get("stage")
    if own is None and like is None:
        # An empty value, perhaps of an unset variable, is no stage: `dev` may lose its data.
        name = DEV.name if chosen is None else str(chosen)
        stage = find(name)
        if stage is None:
            raise StageError(
                f"There is no stage {name!r}; choose one of {', '.join(STAGES)}, or make one that "
                f"is like another: -c name={name or 'staging'} -c like=prod."
            )
        return stage
    models = " or ".join(_MODELS)
    # As text: cdk.json may hold a list.
    if own is None or str(like) not in _MODELS or chosen:
        raise StageError(
            f"A stage of your own has a name and is like {models}: give -c name=staging "
            "-c like=prod, both and without 'stage'."
        )
    if find(str(own)) is not None:
        raise StageError(f"{own!r} is a stage already: choose it with -c stage={own}.")
    return replace(_MODELS[str(like)], name=str(own))


def _check_keys(context: Mapping[str, Any]) -> None:
    """Refuse a misspelt key, such as first-deploy, which the CDK would silently ignore."""
    known = ["stage", "like", "name", *(name for name in _TYPES if name not in FIXED)]
    for key in context:
        if key in known or "@" in key or ":" in key:  # of the CDK
            continue
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).replace("-", "_").lower()
        close = difflib.get_close_matches(words, known, n=1)
        if close:
            raise StageError(f"There is no context value '{key}'; did you mean '{close[0]}'?")
        if "-" not in key:  # The CDK has some with a hyphen too.
            raise StageError(f"There is no context value '{key}'; there are {', '.join(known)}.")


def _read(name: str, value: Any) -> Any:
    """A context value as its field's type; cdk.json has typed values, the command line text."""
    text = str(value).strip()
    if _TYPES[name] is bool:
        if text.lower() not in ("true", "false"):
            raise StageError(f"{name!r} must be true or false, not {text!r}.")
        return text.lower() == "true"
    if _TYPES[name] in (int, int | None):
        if not re.fullmatch(r"-?[0-9]{1,20}", text):
            raise StageError(f"{name!r} must be a whole number, not {text!r}.")
        return int(text)
    if _TYPES[name] == tuple[str, ...]:
        parts = value if isinstance(value, list) else text.split(",")
        found = tuple(part for part in (str(part).strip() for part in parts) if part)
        if found or name not in BINDING:
            return found
        text = ""
    if not text:
        raise StageError(f"{name!r} is empty; give it a value, or leave it out.")
    return text
