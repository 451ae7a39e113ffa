"""API keys: made, listed and deleted. A key itself is in one answer only, that of the request that made it."""

from leveret.broker.token import SCOPES, Token, digest_of, new_key
from leveret.management.http.answer import Answer, bad_request, done, not_found
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.request import Request, parse_int
from leveret.management.http.route import ADMINISTRATOR, Result, Route
from leveret.server.clock import now_ms


def token_view(token: Token) -> JsonObject:
    """A key as the API shows it."""
    return {
        "id": token.id,
        "user": token.user_name,
        "scopes": list(token.scopes),
        "created_at": token.created_at,
        "expires_at": token.expires_at or None,
    }


def get_tokens(request: Request) -> Answer:
    """All API keys, without the keys themselves."""
    return answer_list(
        request.query, request.broker.tokens.by_id.values(), token_view, lambda token: (token.user_name, token.id)
    )


async def post_token(request: Request) -> Result:
    """Make an API key for a user; `expires_in` is in seconds, without it the key does not expire."""
    (user,) = request.need("user")
    scopes = request.body.get("scopes") or []
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise bad_request(f"scopes must be a list of {', '.join(SCOPES)}")
    now = now_ms()
    expires_at = 0
    if request.body.get("expires_in") is not None:
        seconds = parse_int(request.body["expires_in"], "expires_in")
        if not 0 < seconds < 1 << 40:
            raise bad_request("expires_in must be a number of seconds above 0")
        expires_at = now + 1000 * seconds
    if not isinstance(user, str) or user not in request.broker.users:
        raise not_found()
    id, key = new_key()
    token = Token(id, user, digest_of(key), tuple(str(scope) for scope in scopes), now, expires_at)
    await request.change(request.broker.add_token, token, by=request.user.name)
    return Answer({**token_view(token), "token": key}, 201)


async def delete_token(request: Request) -> Result:
    """Delete an API key; it is refused from then on."""
    token = request.found(request.broker.tokens.by_id, "token")
    await request.change(request.broker.delete_token, token.id, by=request.user.name)
    return done()


ROUTES = [
    Route("GET", "/api/tokens", ADMINISTRATOR, get_tokens),
    Route("POST", "/api/tokens", ADMINISTRATOR, post_token),
    Route("DELETE", "/api/tokens/{token}", ADMINISTRATOR, delete_token),
]
