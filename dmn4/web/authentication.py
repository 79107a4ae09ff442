"""Who makes a request: a token in a header or in the cookie of the page."""

import asyncio
from http.cookies import CookieError, SimpleCookie

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import Scope

from .store import Caller, Store

COOKIE = "dmn4_token"
FREE = ("/", "/healthz", "/readyz")                           # and the files of the page
ASK = "a token is needed: send it as `Authorization: Bearer TOKEN`; `dmn4 token add NAME` makes one"


class Authentication:
    """Lets in who has a token; everybody, if there never was one and the service is `open`."""

    def __init__(self, store: Store, is_open: bool) -> None:
        self.store, self.is_open = store, is_open

    async def caller(self, scope: Scope) -> Caller:
        """Who makes a request; 401 for strangers."""
        address, request = (scope.get("client") or ("",))[0], scope.get("state", {}).get("request", "")
        if scope["path"] in FREE or scope["path"].startswith("/page/"):
            return Caller(address=address, request=request)
        text = token_in(Headers(scope=scope))
        if text is not None:
            token = await asyncio.to_thread(self.store.tokens.owner_of, text)
            if token is None:
                raise HTTPException(401, "this token is unknown, or it was revoked")
            return Caller(token, address, request)
        if self.is_open and not await asyncio.to_thread(self.store.tokens.exist):
            return Caller(address=address, request=request)
        raise HTTPException(401, ASK)


def token_in(headers: Headers) -> str | None:
    """The token that came with a request, if one did."""
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value
