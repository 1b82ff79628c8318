"""Who the user of a request is: which claims of a valid token count."""

from collections.abc import Mapping
from typing import Any

from fanfold.errors import NoUser
from fanfold.ids import is_id

# Claims that a user may set to anything until the issuer has verified them, and the claim that says
# so (OpenID Connect Core, 5.1).
VERIFIED_BY = {"email": "email_verified", "phone_number": "phone_number_verified"}


def user_of(claims: Mapping[str, Any], claim: str) -> str:
    """The user whom `claim` names; raises `NoUser`."""
    # Cognito's mark. Its ID tokens tell an app about its user, and carry what users may write.
    if claims.get("token_use", "access") != "access":
        raise NoUser("This token is not meant for an API; send the access token instead.")
    user_id = claims.get(claim)
    if not isinstance(user_id, str) or not is_id(user_id):
        raise NoUser(
            f"The token's claim '{claim}' names no user that can be an id here; "
            "sign in again, or let the operators check the configured claim."
        )
    # API Gateway passes every claim as a string.
    verified = VERIFIED_BY.get(claim)
    if verified and str(claims.get(verified)).lower() != "true":
        raise NoUser(
            f"The token's claim '{claim}' counts only if '{verified}' is true beside it; verify "
            "it with your identity provider, then sign in again."
        )
    return user_id
