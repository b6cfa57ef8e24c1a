"""Access tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4), for API users and for people."""

from handlers.call import Call, Response
from handlers.operation import operation
from handlers.schemas.auth import refusal_response, token_request, token_response
from handlers.services.sign_in import SignIn, TokenRefused, TokenRequest, check_credentials, issue_token


@operation("createAccessToken", body=token_request, before_transaction=check_credentials)
def create_access_token(call: Call, hook_result: SignIn | TokenRefused, body: TokenRequest) -> Response:
    """Issue a token with all permissions of the user, or with the permissions in `scope`.

    `hook_result` is the result of `check_credentials`.
    """
    try:
        if isinstance(hook_result, TokenRefused):
            raise hook_result
        return token_response(issue_token(call, hook_result, body.scope))
    except TokenRefused as refusal:
        return refusal_response(refusal)
