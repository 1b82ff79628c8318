"""The VPC in which functions run, if they must."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from ..rights import FROM_CODE

ATTACHING: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
# What functions call besides DynamoDB. Logs, with their metrics, do not use the functions' network,
# and API Gateway verifies tokens before a function runs.
_INTERFACES: Final = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,
}


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where the functions run, and how they reach AWS."""

    vpc: ec2.IVpc
    # Without it, the private ones.
    subnets: ec2.SubnetSelection | None = None
    # Without any, one of the timeline's own.
    security_groups: Sequence[ec2.ISecurityGroup] = ()
    # Make the endpoints that the functions need. A VPC can have each only once: one of several
    # timelines makes them, or the app does.
    endpoints: bool = False


class Attachment(Construct):
    """The network of all functions of a timeline, with what it lacks."""

    def __init__(self, scope: Construct, id_: str, *, network: Network) -> None:
        super().__init__(scope, id_)
        self.vpc = network.vpc
        self.subnets = network.subnets
        self.security_groups = list(network.security_groups) or [
            ec2.SecurityGroup(
                self,
                "Functions",
                vpc=network.vpc,
                description="Functions of a follow timeline: they call AWS, nobody calls them.",
            )
        ]
        if network.endpoints:
            self._add_endpoints()

    @staticmethod
    def allow(role: iam.Role) -> None:
        """Let Lambda, and not the function's code, attach a function of this role.

        AWS accepts no resource for these actions. The managed policy would also allow every log
        group, and the code any network interface of the account.
        """
        actions, resources = list(ATTACHING), ["*"]
        role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        role.add_to_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY, actions=actions, resources=resources, conditions=FROM_CODE
            )
        )

    def _add_endpoints(self) -> None:
        ec2.GatewayVpcEndpoint(
            self,
            "DynamoDb",
            vpc=self.vpc,
            service=ec2.GatewayVpcEndpointAwsService.DYNAMODB,
            subnets=None if self.subnets is None else [self.subnets],
        )
        functions = ec2.Connections(security_groups=self.security_groups)
        for name, service in _INTERFACES.items():
            endpoint = ec2.InterfaceVpcEndpoint(
                self, name, vpc=self.vpc, service=service, subnets=self.subnets, open=False
            )
            endpoint.connections.allow_default_port_from(functions)
