"""ApiVersions: what this server answers, read off its own table of handlers, and the features of the cluster.

Clients choose their behaviour by the finalized features: with `transaction.version` 2 a Java producer no longer sends
AddPartitionsToTxn (KIP-890).

Shown by tests/runtime/test_router.py and tests/conformance/stories/frames.py.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from protocol.errors import ErrorCode
from protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    ApiVersionsResponseSupportedFeatureKey,
)


class Feature(Struct, frozen=True):
    """A feature of the cluster (KIP-584): the levels that are supported, and the one that is in force."""

    name: str
    lowest: int
    highest: int
    level: int


FEATURES: Final = (
    Feature("eligible.leader.replicas.version", 0, 1, 1),
    Feature("group.version", 0, 1, 1),
    Feature("kraft.version", 0, 1, 0),
    Feature("metadata.version", 7, 30, 30),
    Feature("share.version", 0, 1, 1),
    Feature("streams.version", 0, 1, 1),
    Feature("transaction.version", 0, 2, 2),
)
"""Those of a new Apache Kafka 4.3.1."""

FEATURES_EPOCH: Final = 1  # the features never change, so one number orders all responses
_LOWEST_SINCE: Final = 4  # before, clients fail to read a feature that begins with 0 (KAFKA-17011)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def api_versions(request: ApiVersionsRequest, version: int, offered: Mapping[int, range]) -> ApiVersionsResponse:
    """List what is offered and the features; INVALID_REQUEST if the client's software has no proper name or version."""
    if version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=tuple(_entry(key, offered[key]) for key in sorted(offered)),
        supported_features=tuple(
            ApiVersionsResponseSupportedFeatureKey(feature.name, feature.lowest, feature.highest)
            for feature in FEATURES
            if feature.lowest > 0 or version >= _LOWEST_SINCE
        ),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=tuple(
            ApiVersionsResponseFinalizedFeatureKey(feature.name, feature.level, feature.level)
            for feature in FEATURES
            if feature.level > 0
        ),
    )


def unknown_version(known: range, api_key: int) -> ApiVersionsResponse:
    """Return the answer, in version 0, to a version that is not known: the one range that helps the client on
    (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(_entry(api_key, known),))


def _entry(api_key: int, versions: range) -> ApiVersionsResponseApiVersion:
    return ApiVersionsResponseApiVersion(api_key=api_key, min_version=versions.start, max_version=versions[-1])
