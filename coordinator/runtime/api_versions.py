"""ApiVersions: what this server answers, read off its own table of handlers."""

import re
from collections.abc import Mapping
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseApiVersion

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def api_versions(request: ApiVersionsRequest, version: int, offered: Mapping[int, range]) -> ApiVersionsResponse:
    """All that is offered; INVALID_REQUEST for a client whose software has no proper name or version."""
    if version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=tuple(_entry(key, offered[key]) for key in sorted(offered)))


def unknown_version(known: range, api_key: int) -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is not known: the one range that helps the client on (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(_entry(api_key, known),))


def _entry(api_key: int, versions: range) -> ApiVersionsResponseApiVersion:
    return ApiVersionsResponseApiVersion(api_key=api_key, min_version=versions.start, max_version=versions[-1])
