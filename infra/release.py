"""Writes a release for users without CDK: templates, the functions' code, checksums.

Run as `python -m infra.release DIRECTORY` in a checkout.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aws_cdk import Annotations, App, BootstraplessSynthesizer, CfnParameter
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3

from .bundling import EXECUTABLE_MODE, ROOT, bundle
from .settings.stages import DEV, PROD, Stage
from .stack import FanfoldStack

SUMS: Final = "SHA256SUMS"
# The time of every file of the code: the same code makes the same bytes.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
# The part of the code's hash in its name. CloudFormation updates the code if its name is new.
_HASH_DIGITS: Final = 12


@dataclass(frozen=True)
class Parameter:
    """What a user chooses when deploying; it replaces a `mark` in the template."""

    name: str
    mark: str
    description: str
    pattern: str
    default: str | None = None
    kind: str = "String"

    def declared(self) -> dict[str, str]:
        """Its declaration; without a default, it must be given. Each item of a list must match."""
        said = {"Type": self.kind, "Description": self.description, "AllowedPattern": self.pattern}
        return said if self.default is None else {**said, "Default": self.default}


_NAME: Final = Parameter(
    "Name",
    "its-name",
    "In logs and metrics: no two timelines of an account and region may share it.",
    "[A-Za-z][A-Za-z0-9-]{0,49}",
)
_ISSUER: Final = Parameter(
    "JwtIssuer",
    "https://issuer.of.tokens",
    "The address of the OIDC issuer, as its tokens carry it.",
    r"https://[^\s?#]+",
)
_AUDIENCE: Final = Parameter(
    "JwtAudience",
    "audience-of-tokens",
    "The audiences or client ids that tokens carry, with commas between them.",
    # Not empty: tokens for any other service would pass.
    r"\S+",
    kind="CommaDelimitedList",
)
_CLAIM: Final = Parameter(
    "UserClaim",
    "claim-of-tokens",
    "The claim that names a token's user; no user may choose it. Of Cognito: sub or username.",
    "[A-Za-z0-9_:./-]{1,128}",
    "sub",
)
_EMAIL: Final = Parameter(
    "AlarmEmail",
    "alarms@mail.invalid",
    "Gets every alarm, once its owner has confirmed it.",
    r"[^@\s]+@[^@\s]+",
)
_PROTECTED: Final = Parameter(
    "Protected",
    "",
    "Protects the tables from deletion: true once the first deploy has succeeded.",
    "true|false",
    "false",
)

# What is released: like `dev`, to try it, and like `prod`.
RELEASED: Final[dict[Stage, tuple[Parameter, ...]]] = {
    replace(DEV, name=_NAME.mark): (replace(_NAME, default=DEV.name),),
    replace(
        PROD,
        name=_NAME.mark,
        jwt_issuer=_ISSUER.mark,
        jwt_audience=(_AUDIENCE.mark,),
        user_claim=_CLAIM.mark,
        alarm_email=_EMAIL.mark,
    ): (replace(_NAME, default=PROD.name), _ISSUER, _AUDIENCE, _CLAIM, _EMAIL, _PROTECTED),
}


def write(directory: Path, *, machine: Stage = DEV) -> list[Path]:
    """Write templates, code and sums for functions on the runtime of `machine`; returns the files.

    The sums are of all files of this version in the directory, such as a wheel.
    """
    if not (ROOT / "cdk.json").is_file():
        raise SystemExit("A release is made in a checkout: there is no cdk.json here.")
    directory.mkdir(parents=True, exist_ok=True)
    version = _version()
    code = write_code(directory, version, machine)
    templates = []
    for kind, (stage, parameters) in zip(("dev", "prod"), RELEASED.items(), strict=True):
        fitting = replace(
            stage,
            runtime=machine.runtime,
            architecture=machine.architecture,
            metric_math=machine.metric_math,
        )
        path = directory / f"fanfold-{version}-{kind}.template.json"
        template = with_parameters(_synthesized(fitting, code.name), parameters)
        path.write_text(json.dumps(template, separators=(",", ":")) + "\n", encoding="utf-8")
        templates.append(path)
    sums = directory / SUMS
    summed = sorted(directory.glob(f"fanfold-{version}*"))
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in summed)
    sums.write_text("".join(lines), encoding="utf-8")
    return [*templates, code, sums]


def with_parameters(template: dict[str, Any], parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """The template with parameters in place of their marks."""
    replaced: dict[str, Any] = _replaced(template, parameters)
    for each in parameters:
        replaced["Parameters"][each.name] = each.declared()
    if _PROTECTED in parameters:
        replaced["Conditions"] = {
            "IsProtected": {"Fn::Equals": [{"Ref": _PROTECTED.name}, "true"]},
            **replaced.get("Conditions", {}),
        }
        for resource in replaced["Resources"].values():
            for replica in resource.get("Properties", {}).get("Replicas", ()):
                replica["DeletionProtectionEnabled"] = {"Fn::If": ["IsProtected", True, False]}
    return replaced


def _replaced(value: Any, parameters: tuple[Parameter, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, parameters) for key, each in value.items()}
    if isinstance(value, list):
        if value == [_AUDIENCE.mark]:
            return {"Ref": _AUDIENCE.name}
        return [_replaced(each, parameters) for each in value]
    if not isinstance(value, str):
        return value
    text = value
    for each in parameters:
        if each.mark:
            text = text.replace(each.mark, "${" + each.name + "}")
    if text == value:
        return value
    if whole := re.fullmatch(r"\$\{(\w+)\}", text):
        return {"Ref": whole[1]}
    return {"Fn::Sub": text}


def _synthesized(stage: Stage, code: str) -> dict[str, Any]:
    """The template of the stage, whose code is in a bucket that a parameter names."""
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    with tempfile.TemporaryDirectory(prefix="fanfold-release-") as directory:
        app = App(context=flags, outdir=directory)
        stack = FanfoldStack(
            app,
            "Fanfold",
            stage=stage,
            synthesizer=BootstraplessSynthesizer(),
            code=lambda scope: _in_a_bucket(scope, code),
        )
        template: dict[str, Any] = app.synth().get_stack_by_name(stack.stack_name).template
        return template


def _in_a_bucket(scope: FanfoldStack, code: str) -> lambda_.Code:
    bucket = CfnParameter(
        scope, "CodeBucket", description="The bucket of this region with the functions' code."
    )
    key = CfnParameter(scope, "CodeKey", default=code, description="Where it is in the bucket.")
    found = s3.Bucket.from_bucket_name(scope, "Bucket", bucket.value_as_string)
    # The code's name is the hash of its content.
    Annotations.of(found).acknowledge_warning(
        "@aws-cdk/aws-lambda:codeFromBucketObjectVersionNotSpecified"
    )
    return lambda_.Code.from_bucket(found, key.value_as_string)


def write_code(directory: Path, version: str, machine: Stage) -> Path:
    """Write the zip of the functions in place of an older one of this version."""
    with tempfile.TemporaryDirectory(prefix="fanfold-release-") as made:
        bundle(Path(made), stage=machine)
        packed = directory / "code.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(made).rglob("*")):
                if path.is_file():
                    _add(archive, path, str(path.relative_to(made)))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:_HASH_DIGITS]
    for old in directory.glob(f"fanfold-{version}-*.zip"):
        old.unlink()
    return packed.rename(directory / f"fanfold-{version}-{digest}.zip")


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    entry = zipfile.ZipInfo(name, _NO_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (path.stat().st_mode & EXECUTABLE_MODE) << 16
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target)


def _version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as project:
        return str(tomllib.load(project)["project"]["version"])


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)
