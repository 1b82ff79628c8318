"""The users of a timeline: where the tokens come from that the API accepts."""

from dataclasses import dataclass, replace

from aws_cdk import aws_cognito as cognito

from fanfold.settings import Settings

from ..settings.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Users:
    """Made by one of three class methods. The `claim` of a token names its user."""

    claim: str = Settings.user_claim
    pool: cognito.IUserPool | None = None
    clients: tuple[cognito.IUserPoolClient, ...] = ()
    issuer: str | None = None
    audience: tuple[str, ...] = ()

    @classmethod
    def own_pool(cls, *, claim: str = Settings.user_claim) -> "Users":
        """A Cognito pool that belongs to the timeline; Cognito bills it per user."""
        return cls(claim=claim)

    @classmethod
    def of_pool(
        cls,
        pool: cognito.IUserPool,
        *clients: cognito.IUserPoolClient,
        claim: str = Settings.user_claim,
    ) -> "Users":
        """The users of an existing Cognito pool, with access tokens of these clients."""
        if not clients:
            raise ValueError("Name at least one client of the pool, whose tokens are accepted.")
        return cls(claim=claim, pool=pool, clients=clients)

    @classmethod
    def of_issuer(cls, issuer: str, *audience: str, claim: str = Settings.user_claim) -> "Users":
        """The users of an OIDC issuer that API Gateway can verify; tokens are for this audience."""
        return cls(claim=claim, issuer=issuer, audience=audience)

    def applied_to(self, stage: Stage) -> Stage:
        """The stage with these users; for an existing pool, it only says that there is one."""
        return replace(
            stage,
            user_pool=self.issuer is None,
            user_claim=self.claim,
            jwt_issuer=self.issuer,
            jwt_audience=self.audience,
        )
