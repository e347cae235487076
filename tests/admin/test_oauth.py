"""The token endpoint for development: whom it gives a token, and what it says of other requests."""

import base64
import json
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.admin.http import Request, Response
from coordinator.admin.oauth import add_issuer
from coordinator.admin.router import Router
from coordinator.server.sasl.issuer import LIFETIME_MAX_S, LIFETIME_S

FORM = {"grant_type": "client_credentials", "client_id": "carol"}


class Issuer:
    """An issuer whose tokens say what was asked for."""

    def __init__(self) -> None:
        self.keys = [{"kid": "k"}]

    def issue(self, user: str, *, scope: str, audience: str, lifetime_s: int) -> str:
        return json.dumps([user, scope, audience, lifetime_s])


def make_router() -> Router:
    router = Router()
    issuer: Any = Issuer()
    add_issuer(router, issuer)
    return router


async def ask(body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    router = make_router()
    response = await router(Request("POST", "/oauth/token", headers=headers, body=body))
    assert isinstance(response, Response)
    assert response.content_type == "application/json"
    return response.status, json.loads(response.body)


def basic(kind: str, text: str) -> str:
    return f"{kind} {base64.b64encode(text.encode()).decode()}"


WORDS = st.text(st.sampled_from("ab :%+é"), max_size=4)
LIFETIMES = st.sampled_from([None, 0, 1, 90, LIFETIME_MAX_S, LIFETIME_MAX_S + 1])


@settings(max_examples=40)
@given(
    st.none() | WORDS,
    st.none() | WORDS,
    WORDS,
    WORDS,
    LIFETIMES,
    st.sampled_from([1, -1]),
    st.sampled_from(["Basic", "basic"]),
)
def test_a_token_is_for_the_client_that_asks(
    own: str | None, formed: str | None, scope: str, audience: str, lifetime: int | None, sign: int, kind: str
) -> None:
    """Basic authentication names the client, and the form only where there is none."""
    lifetime_s = LIFETIME_S if lifetime is None else sign * lifetime
    form = {"grant_type": "client_credentials", "scope": scope, "audience": audience}
    form |= {} if formed is None else {"client_id": formed}
    form |= {} if lifetime is None else {"lifetime": str(lifetime_s)}
    headers = {} if own is None else {"authorization": basic(kind, f"{quote_plus(own)}:any:thing")}
    call = ask(urlencode(form).encode(), **headers)
    with pytest.raises(StopIteration) as done:  # nothing in it waits
        call.send(None)
    status, found = done.value.value
    client = own or formed
    if not client:
        assert (status, found["error"]) == (400, "invalid_request")
    elif abs(lifetime_s) > LIFETIME_MAX_S:
        assert (status, found["error"]) == (400, "invalid_request")
        assert found["error_description"] == "lifetime: expected at most 86400 seconds"
    else:
        assert (status, found) == (
            200,
            {
                "access_token": json.dumps([client, scope, audience, lifetime_s]),
                "token_type": "Bearer",
                "expires_in": max(lifetime_s, 0),
                "scope": scope,
            },
        )


@pytest.mark.parametrize(
    ("form", "headers", "error"),
    [
        ({"grant_type": "password", "client_id": "a"}, {}, "unsupported_grant_type"),
        ({"client_id": "a"}, {}, "unsupported_grant_type"),
        ({**FORM, "lifetime": "1.5"}, {}, "invalid_request"),
        ({**FORM, "lifetime": "86400"}, {}, None),
        ({**FORM, "lifetime": "86401"}, {}, "invalid_request"),
        ({**FORM, "lifetime": "-86400"}, {}, None),
        ({**FORM, "lifetime": "-86401"}, {}, "invalid_request"),
        (FORM, {"authorization": "Basic !"}, "invalid_request"),
        (FORM, {"authorization": "Basic /w=="}, "invalid_request"),
        (FORM, {"authorization": "Bearer x"}, None),
        ({**FORM, **{str(number): "" for number in range(14)}}, {}, None),
        ({**FORM, **{str(number): "" for number in range(15)}}, {}, "invalid_request"),
    ],
)
async def test_what_is_no_request_for_a_token_is_refused(
    form: dict[str, str], headers: dict[str, str], error: str | None
) -> None:
    status, found = await ask(urlencode(form).encode(), **headers)
    assert (status, found.get("error")) == ((400, error) if error else (200, None))


async def test_a_form_is_text() -> None:
    status, found = await ask(b"client_id=\xff")
    assert (status, found["error"]) == (400, "invalid_request")


async def test_the_keys_are_public() -> None:
    router = make_router()
    response = await router(Request("GET", "/oauth/jwks"))
    assert isinstance(response, Response)
    assert json.loads(response.body) == {"keys": [{"kid": "k"}]}
