"""What the wheel holds beside the packages of pyproject.toml (docs/decisions/0036)."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The checkout's folder of the CDK construct under a name that a site-packages can hold, and the
# sources of the functions' asset as data beside it, each file as it is.
WHEEL_ONLY = {
    "infra": "fanfold_cdk",
    **{
        source: f"fanfold_cdk/source/{source}"
        for source in ("fanfold", "functions", "requirements.txt", "requirements-boto3.txt")
    },
}


class WheelHook(BuildHookInterface[Any]):
    """Adds them to a wheel. An editable install reads the checkout, and must hold no copies."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_data["force_include"].update(WHEEL_ONLY)
