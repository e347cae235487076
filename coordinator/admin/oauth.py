"""A token endpoint and keys for development: `--oauth-dev`. A client that reaches it can become any user.

POST /oauth/token   grant_type=client_credentials, the client's id by Basic authentication or as client_id
GET /oauth/jwks     the public key
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from coordinator.admin.http import Request, Response
from coordinator.admin.router import Router
from coordinator.server.sasl.issuer import LIFETIME_MAX_S, LIFETIME_S, Issuer


def add_issuer(router: Router, issuer: Issuer) -> None:
    """Let the router answer for an issuer."""
    jwks = json.dumps({"keys": issuer.keys}).encode() + b"\n"
    router.add("GET", "/oauth/jwks", lambda request: Response(jwks, content_type="application/json"))
    router.add("POST", "/oauth/token", lambda request: _token(issuer, request))


def _token(issuer: Issuer, request: Request) -> Response:
    """Return a token (RFC 6749, 4.4). `lifetime` in seconds is ours: a negative one has expired."""
    try:
        pairs = parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=16)
        form = dict(pairs)
        client = _client_id(request.headers) or form.get("client_id", "")
        lifetime_s = int(form.get("lifetime", LIFETIME_S))
    except (UnicodeDecodeError, ValueError):
        return _refuse("invalid_request", "expected a form; lifetime is a number of seconds")
    if form.get("grant_type") != "client_credentials":
        return _refuse("unsupported_grant_type", "expected grant_type=client_credentials")
    if not client:
        return _refuse("invalid_request", "expected a client id, by Basic authentication or as client_id")
    if abs(lifetime_s) > LIFETIME_MAX_S:
        return _refuse("invalid_request", f"lifetime: expected at most {LIFETIME_MAX_S} seconds")
    scope = form.get("scope", "")
    token = issuer.issue(client, scope=scope, audience=form.get("audience", ""), lifetime_s=lifetime_s)
    facts = {"access_token": token, "token_type": "Bearer", "expires_in": max(0, lifetime_s), "scope": scope}
    return _json(facts)


def _client_id(headers: Mapping[str, str]) -> str | None:
    """Return the user of Basic authentication; its password is not looked at."""
    kind, _, encoded = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return unquote_plus(base64.b64decode(encoded, validate=True).decode().partition(":")[0])
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("not Basic authentication") from None


def _refuse(error: str, description: str) -> Response:
    return _json({"error": error, "error_description": description}, 400)


def _json(facts: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(facts).encode() + b"\n", status, "application/json")
