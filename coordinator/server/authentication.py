"""How far the authentication of one connection is, by Kafka's requests. Kafka: `SaslServerAuthenticator`.

ApiVersions* ─► SaslHandshake ─► SaslAuthenticate, as often as the mechanism wants ─► authenticated
                                 (behind SaslHandshake 0: bare tokens)                    │
                 SaslHandshake ◄────────── again, in time (KIP-368) ──────────────────────┘
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from coordinator.core.principal import USER, Principal
from coordinator.server.sasl.outcome import Challenge, Failure, Machine, Outcome, Success
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:  # the mechanisms are imported where a listener has SASL
    from coordinator.server.sasl.listener import Sasl, StoredCredentials

SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36
AGAIN_S: Final = 1.0  # the shortest time between two authentications of a connection
NEVER_S: Final = float("inf")


class Authentication:
    """The state of one connection of a listener with SASL."""

    __slots__ = ("_again_s", "_expected", "_machine", "_mechanism", "_sasl", "expires_s", "principal", "takes_tokens")

    def __init__(self, sasl: "Sasl") -> None:
        self._sasl = sasl
        self._expected: tuple[int, ...] = (API_VERSIONS, SASL_HANDSHAKE)
        self._machine: Machine | None = None  # of the exchange at hand
        self._mechanism = ""
        self._again_s = -NEVER_S  # when it last authenticated again
        self.takes_tokens = False  # frames are bare tokens
        self.principal: Principal | None = None  # since it is authenticated
        self.expires_s = NEVER_S  # the authentication, by the real clock

    @property
    def frame_bytes_max(self) -> int:
        """How large a frame may be before the client is authenticated."""
        return self._sasl.frame_bytes_max

    @property
    def is_complete(self) -> bool:
        """Whether no exchange is at hand, so that the next frame is a request like any other."""
        return not (self._expected or self.takes_tokens)

    def is_concerned(self, api_key: int, now_s: float) -> bool:
        """Return whether a request is a part of the authentication, else it is handled like any other.

        Raises ProtocolError for a request that must not come now.
        """
        if self._expected:
            if api_key not in self._expected:
                reason = "before the client was authenticated" if self.principal is None else "during authentication"
                raise ProtocolError(f"a request of the API {api_key} {reason}")
            return api_key != API_VERSIONS
        # A client that need not authenticate again is told so by the handler of SaslHandshake, as in Kafka.
        if api_key == SASL_HANDSHAKE:
            return self.expires_s < NEVER_S and now_s - self._again_s >= AGAIN_S
        if now_s >= self.expires_s:
            raise ProtocolError("the authentication has expired (connections.max.reauth.ms, or the token)")
        return False

    def shake_hands(
        self, request: SaslHandshakeRequest, version: int, now_s: float, stored: "StoredCredentials"
    ) -> SaslHandshakeResponse:
        """Begin an exchange. With an error in the response, the connection is to be closed.

        Raises ProtocolError for another mechanism than before. Kafka closes as well, for one that is enabled with the
        first token.
        """
        mechanisms = self._sasl.mechanisms
        if self.principal is not None:
            if request.mechanism != self._mechanism:
                raise ProtocolError(f"authentication by {request.mechanism}, and before by {self._mechanism}")
            self._again_s = now_s
        if request.mechanism not in mechanisms:
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms)
        self._machine = self._sasl.begin(request.mechanism, stored)
        self._mechanism = request.mechanism
        self._expected = (SASL_AUTHENTICATE,)
        self.takes_tokens = version == 0
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def step(self, token: bytes) -> Outcome:
        """Take the client's next token."""
        assert self._machine is not None, "tokens are expected behind a handshake only"
        return self._machine.step(token)

    def complete(self, success: Success, now_s: float, wall_s: Callable[[], float] = time.time) -> int | Failure:
        """Complete the authentication. Returns how long it holds, in ms, 0 for ever; or the failure after all."""
        principal = Principal(USER, success.user)
        if self.principal is not None and principal != self.principal:
            return Failure(
                f"Cannot change principals during re-authentication from {self.principal.type}.{self.principal.name}:"
                f" {principal.type}.{principal.name}"
            )
        self.principal = principal
        self._machine, self._expected, self.takes_tokens = None, (), False
        bounds = []
        if (most_ms := self._sasl.max_reauth_ms(self._mechanism)) > 0:
            bounds.append(most_ms)
        if success.expires_s is not None:
            bounds.append(max(0, int((success.expires_s - wall_s()) * 1000)))
        if not bounds:
            self.expires_s = NEVER_S
            return 0
        self.expires_s = now_s + min(bounds) / 1000
        return min(bounds)


Settled = Challenge | Success | Failure
"""What an outcome is once nothing is to be found out any more."""
