"""The principal of a connection: the user that a client is. Kafka: `KafkaPrincipal`."""

from typing import Final

from msgspec import Struct

USER: Final = "User"


class Principal(Struct, frozen=True, order=True, gc=False):
    """An authenticated client: a type, which is `User` for all that listeners authenticate, and a name."""

    type: str
    name: str

    def __str__(self) -> str:
        """Return TYPE:NAME, as ACLs and `super.users` write it."""
        return f"{self.type}:{self.name}"


OPERATOR_PRINCIPAL: Final = Principal("Operator", "admin port")
"""The principal of requests to the admin port. No listener gives this type to a client, and no ACL can name it."""

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a connection whose listener authenticates nobody."""
