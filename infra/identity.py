"""Where users come from: a Cognito pool, the stack's own or another, or an OIDC issuer."""

from aws_cdk import Stack
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from .embedding.users import Users
from .settings.stages import Stage
from .tables import removal_policy


class Identity(Construct):
    """The issuer and the audience that the API requires of tokens."""

    def __init__(
        self, scope: Construct, id_: str, *, stage: Stage, users: Users | None = None
    ) -> None:
        super().__init__(scope, id_)
        self.pool: cognito.IUserPool | None = None
        self.audience: tuple[str, ...] = stage.jwt_audience
        # The first client whose tokens are accepted.
        self.client: cognito.IUserPoolClient | None = None
        if users is not None and users.pool is not None:
            self._accept(users.pool, *users.clients, region=users.pool.env.region)
        elif stage.user_pool:
            pool = _pool(self, stage)
            self._accept(pool, _client(self, pool), region=Stack.of(self).region)
        else:
            assert stage.jwt_issuer is not None  # `Stage.check` makes sure.
            self.issuer = stage.jwt_issuer

    def _accept(
        self, pool: cognito.IUserPool, *clients: cognito.IUserPoolClient, region: str
    ) -> None:
        self.pool, self.client = pool, clients[0]
        # Composed as tokens contain it; the attribute ProviderURL may differ.
        self.issuer = f"https://cognito-idp.{region}.amazonaws.com/{pool.user_pool_id}"
        self.audience = tuple(each.user_pool_client_id for each in clients)


def _pool(scope: Construct, stage: Stage) -> cognito.UserPool:
    return cognito.UserPool(
        scope,
        "Pool",
        # Operators create users, so a new stack is not open to the public.
        self_sign_up_enabled=False,
        password_policy=cognito.PasswordPolicy(
            min_length=12,
            require_lowercase=True,
            require_uppercase=True,
            require_digits=True,
            require_symbols=True,
        ),
        # A new address counts only once its owner has confirmed it; the old one does until then.
        auto_verify=cognito.AutoVerifiedAttrs(email=True),
        keep_original=cognito.KeepOriginalAttrs(email=True),
        account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
        deletion_protection=stage.is_protected,
        removal_policy=removal_policy(stage),
    )


def _client(scope: Construct, pool: cognito.UserPool) -> cognito.UserPoolClient:
    # No secret: an app on a phone or in a browser could not keep it.
    return cognito.UserPoolClient(
        scope,
        "Client",
        user_pool=pool,
        generate_secret=False,
        auth_flows=cognito.AuthFlow(admin_user_password=True, user_password=True),
        disable_o_auth=True,
        prevent_user_existence_errors=True,
        # Anyone with a user's access token may write these. Operators write the rest, such as the
        # address that resets the password. Not empty: Cognito would then allow all of them.
        write_attributes=cognito.ClientAttributes().with_standard_attributes(locale=True),
    )
