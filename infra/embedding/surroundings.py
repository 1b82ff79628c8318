"""What a team requires of everything deployed: its key, boundary, network and address."""

import re
from dataclasses import dataclass

from aws_cdk import Stack, Tags, Token
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from ..settings.checks import StageError
from ..settings.stages import DOMAIN_NAME, Stage
from .network import Network


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A custom address of the HTTP API. The app points its DNS record to `http.domain`."""

    name: str
    # In the same region.
    certificate: acm.ICertificate
    # Clients must present a certificate too, as a CloudFront distribution in front can.
    mtls: gateway.MTLSConfig | None = None
    # Whether API Gateway's own address answers as well.
    default_endpoint: bool = True

    def __post_init__(self) -> None:
        if not Token.is_unresolved(self.name) and not re.fullmatch(DOMAIN_NAME, self.name):
            raise StageError(
                "'domain_name' must be a name such as api.example.com, in lower case, not "
                f"{self.name!r}."
            )
        if self.mtls is not None and self.default_endpoint:
            raise StageError(
                "The address that API Gateway gives asks for no certificate: with 'mtls', give "
                "default_endpoint=False too."
            )


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """All of these; None is AWS's default."""

    key: kms.IKey | None = None
    boundary: iam.IManagedPolicy | None = None
    network: Network | None = None
    domain: Domain | None = None

    def or_of(self, scope: Construct, stage: Stage) -> "Surroundings":
        """These, and those that only the stage names, by id."""
        found = Construct(scope, "Given") if _names_any(stage) else scope
        return Surroundings(
            key=self.key or _key(found, stage),
            boundary=self.boundary or _boundary(found, stage),
            network=self.network or _network(found, stage),
            domain=self.domain or _domain(found, stage),
        )

    def on_this_machine(self) -> "Surroundings":
        """What a local engine supports: no key, no network, no domain."""
        return Surroundings(boundary=self.boundary)

    def apply_to(self, scope: Construct, stage: Stage) -> None:
        """Bound all roles of the construct, also CDK's own; tag what can have tags."""
        if self.boundary is not None:
            iam.PermissionsBoundary.of(scope).apply(self.boundary)
        for name, value in stage.tagged.items():
            Tags.of(scope).add(name, value)
        if self.key is not None:
            _allow_services(self.key, Stack.of(scope))


def _allow_services(key: kms.IKey, stack: Stack) -> None:
    """Let services use the key that encrypt in their own name.

    If another app owns the key, its owner has to add these statements.
    """
    logs = stack.format_arn(service="logs", resource="log-group", resource_name="*")
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=[
                "kms:Decrypt*",
                "kms:Describe*",
                "kms:Encrypt*",
                "kms:GenerateDataKey*",
                "kms:ReEncrypt*",
            ],
            resources=["*"],
            conditions={
                "ArnLike": {
                    "kms:EncryptionContext:aws:logs:arn": logs.replace("log-group/", "log-group:")
                }
            },
        )
    )
    # For alarms, which publish to the encrypted topic. Conditions on the caller would refuse them.
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["kms:Decrypt", "kms:GenerateDataKey*"],
            resources=["*"],
        )
    )


def _names_any(stage: Stage) -> bool:
    return any((stage.kms_key, stage.permissions_boundary, stage.vpc_id, stage.domain_name))


def _key(scope: Construct, stage: Stage) -> kms.IKey | None:
    return kms.Key.from_key_arn(scope, "Key", stage.kms_key) if stage.kms_key else None


def _boundary(scope: Construct, stage: Stage) -> iam.IManagedPolicy | None:
    named = stage.permissions_boundary
    if named is None:
        return None
    if named.startswith("arn:"):
        return iam.ManagedPolicy.from_managed_policy_arn(scope, "Boundary", named)
    return iam.ManagedPolicy.from_managed_policy_name(scope, "Boundary", named)


def _network(scope: Construct, stage: Stage) -> Network | None:
    if stage.vpc_id is None:
        return None
    return Network(
        # Nothing asks for its zones, or for routes.
        vpc=ec2.Vpc.from_vpc_attributes(
            scope, "Vpc", vpc_id=stage.vpc_id, availability_zones=["unused"]
        ),
        subnets=ec2.SubnetSelection(
            subnets=[
                ec2.Subnet.from_subnet_attributes(
                    scope, subnet, subnet_id=subnet, route_table_id="unused"
                )
                for subnet in stage.subnet_ids
            ]
        ),
        security_groups=[
            ec2.SecurityGroup.from_security_group_id(scope, group, group, mutable=False)
            for group in stage.security_group_ids
        ],
    )


def _domain(scope: Construct, stage: Stage) -> Domain | None:
    if stage.domain_name is None:
        return None
    assert stage.certificate is not None  # `Stage.check` makes sure.
    return Domain(
        name=stage.domain_name,
        certificate=acm.Certificate.from_certificate_arn(scope, "Certificate", stage.certificate),
        default_endpoint=stage.default_endpoint,
    )
