"""ApiVersions: which APIs the server speaks, in which versions; the first request of most clients.

A client does not know yet what the server reads, so two rules bend here. The header of the answer is never
flexible, and a version that the server does not know is answered in version 0 with UNSUPPORTED_VERSION and the
range it does know (KIP-511), so that the client can ask again.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-35: the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-482: flexible, but for the answer's header; KIP-511: the client names its software; KIP-584: features",
    4: "KAFKA-17011: same bytes; a supported feature whose lowest version is 0 is no longer left out",
}


class ApiVersionsRequest(Message):
    client_software_name: str = ""  # `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, else INVALID_REQUEST
    client_software_version: str = ""


REQUEST = Schema(
    ApiVersionsRequest,
    (
        Field("client_software_name", STRING, since=3),
        Field("client_software_version", STRING, since=3),
    ),
)


class ApiVersionsResponseApiVersion(Message):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


RESPONSE_API_VERSION = Schema(
    ApiVersionsResponseApiVersion,
    (
        Field("api_key", INT16),
        Field("min_version", INT16),
        Field("max_version", INT16),
    ),
)


class ApiVersionsResponseSupportedFeatureKey(Message):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


RESPONSE_SUPPORTED_FEATURE_KEY = Schema(
    ApiVersionsResponseSupportedFeatureKey,
    (
        Field("name", STRING, since=3),
        Field("min_version", INT16, since=3),
        Field("max_version", INT16, since=3),
    ),
)


class ApiVersionsResponseFinalizedFeatureKey(Message):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


RESPONSE_FINALIZED_FEATURE_KEY = Schema(
    ApiVersionsResponseFinalizedFeatureKey,
    (
        Field("name", STRING, since=3),
        Field("max_version_level", INT16, since=3),
        Field("min_version_level", INT16, since=3),
    ),
)


class ApiVersionsResponse(Message):
    error_code: int = 0
    api_keys: tuple[ApiVersionsResponseApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[ApiVersionsResponseSupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1  # -1: unknown, and finalized_features means nothing
    finalized_features: tuple[ApiVersionsResponseFinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False  # of a controller only


RESPONSE = Schema(
    ApiVersionsResponse,
    (
        Field("error_code", INT16),
        Field("api_keys", Array(RESPONSE_API_VERSION)),
        Field("throttle_time_ms", INT32, since=1),
        Field("supported_features", Array(RESPONSE_SUPPORTED_FEATURE_KEY), since=3, tag=0),
        Field("finalized_features_epoch", INT64, since=3, tag=1),
        Field("finalized_features", Array(RESPONSE_FINALIZED_FEATURE_KEY), since=3, tag=2),
        Field("zk_migration_ready", BOOLEAN, since=3, tag=3),
    ),
)
