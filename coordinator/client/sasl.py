"""The client's side of SASL: the tokens of each mechanism, one after the other.

An exchange yields the client's tokens and is sent the server's. It raises ValueError for a server that does not know
what it should.
"""

import base64
import hmac
import json
import re
import secrets
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Mapping
from typing import Final

from coordinator.core.scram import ITERATIONS_MIN, ScramMechanism, hash_password, sign

Exchange = Generator[bytes, bytes, None]

ITERATIONS_MOST: Final = 1_000_000  # that a server may ask for: some seconds of hashing
_CHALLENGE: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/]+={0,2}),i=([1-9][0-9]{0,8})")
_TOKEN_BYTES_MAX: Final = 1 << 20


def plain(user: str, password: str) -> Exchange:
    """PLAIN (RFC 4616)."""
    yield f"\0{user}\0{password}".encode()


def scram(mechanism: ScramMechanism, user: str, password: str) -> Exchange:
    """SCRAM (RFC 5802). The server proves that it knows the user, too."""
    nonce = secrets.token_urlsafe(24)
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode()
    match = _CHALLENGE.fullmatch(challenge)
    if match is None or not match[1].startswith(nonce):
        raise ValueError("the server's challenge is none of SCRAM")
    iterations = int(match[3])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MOST:
        raise ValueError(f"the server asks for {iterations} iterations: expected {ITERATIONS_MIN} to {ITERATIONS_MOST}")
    salted = hash_password(mechanism, password, base64.b64decode(match[2]), iterations)
    client_key, server_key = (sign(mechanism, salted, key) for key in (b"Client Key", b"Server Key"))
    without_proof = f"c=biws,r={match[1]}"
    message = f"{first},{challenge},{without_proof}".encode()
    signature = sign(mechanism, mechanism.hash(client_key), message)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    if not hmac.compare_digest(final, b"v=" + base64.b64encode(sign(mechanism, server_key, message))):
        raise ValueError("the server does not prove that it knows the user")


def oauthbearer(token_of: Callable[[], str]) -> Exchange:
    """OAUTHBEARER (RFC 7628). `token_of` gets a token."""
    refusal = yield f"n,,\x01auth=Bearer {token_of()}\x01\x01".encode()
    if refusal:
        yield b"\x01"  # the server says why it failed only then
        raise ValueError(f"the server refuses the token: {refusal.decode(errors='replace')[:200]}")


def request_token(
    url: str, client_id: str, client_secret: str, scope: str, seconds: float, *, urlencodes: bool = False
) -> str:
    """Ask an issuer for a token by the grant of client credentials (RFC 6749, 4.4). Raises OSError and ValueError.

    Issuers differ in whether they expect `urlencodes`: the two credentials encoded as in a form, as the RFC says.
    """
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    words = (client_id, client_secret)
    credentials = ":".join(map(urllib.parse.quote_plus, words) if urlencodes else words)
    headers = {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
    request = urllib.request.Request(url, urllib.parse.urlencode(form).encode(), headers)
    with urllib.request.urlopen(request, timeout=seconds) as response:
        found = json.loads(response.read(_TOKEN_BYTES_MAX))
    token = found.get("access_token") if isinstance(found, Mapping) else None
    if not isinstance(token, str):
        raise ValueError("there is no access_token in the response")
    return token
