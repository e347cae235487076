"""UpdateFeatures: change the levels of finalized features."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-584: the first version",
    1: "KIP-778: kinds of updates, and validation alone",
    2: "KIP-1022: no results by feature",
}


class UpdateFeaturesRequestFeatureUpdateKey(Message):
    feature: str = ""
    max_version_level: int = 0  # below 1: the feature is to be off
    allow_downgrade: bool = False
    upgrade_type: int = 1  # 1 upgrades, 2 downgrades that lose nothing, 3 any downgrades


REQUEST_FEATURE_UPDATE_KEY = Schema(
    UpdateFeaturesRequestFeatureUpdateKey,
    (
        Field("feature", STRING),
        Field("max_version_level", INT16),
        Field("allow_downgrade", BOOLEAN, until=0),
        Field("upgrade_type", INT8, since=1),
    ),
)


class UpdateFeaturesRequest(Message):
    timeout_ms: int = 60000
    feature_updates: tuple[UpdateFeaturesRequestFeatureUpdateKey, ...] = ()
    validate_only: bool = False


REQUEST = Schema(
    UpdateFeaturesRequest,
    (
        Field("timeout_ms", INT32),
        Field("feature_updates", Array(REQUEST_FEATURE_UPDATE_KEY)),
        Field("validate_only", BOOLEAN, since=1),
    ),
)


class UpdateFeaturesResponseUpdatableFeatureResult(Message):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = None


RESPONSE_UPDATABLE_FEATURE_RESULT = Schema(
    UpdateFeaturesResponseUpdatableFeatureResult,
    (
        Field("feature", STRING),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: tuple[UpdateFeaturesResponseUpdatableFeatureResult, ...] = ()


RESPONSE = Schema(
    UpdateFeaturesResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("results", Array(RESPONSE_UPDATABLE_FEATURE_RESULT), until=1),
    ),
)
