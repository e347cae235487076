"""GetTelemetrySubscriptions: which metrics of its own a client should push, and how often.

A zero client instance id asks for a new one.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-714: the first version",
}


class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: bytes = ZERO_UUID


REQUEST = Schema(
    GetTelemetrySubscriptionsRequest,
    (Field("client_instance_id", UUID),),
)


class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    accepted_compression_types: tuple[int, ...] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()  # name prefixes; empty: none; one "": all


RESPONSE = Schema(
    GetTelemetrySubscriptionsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("client_instance_id", UUID),
        Field("subscription_id", INT32),
        Field("accepted_compression_types", Array(INT8)),
        Field("push_interval_ms", INT32),
        Field("telemetry_max_bytes", INT32),
        Field("delta_temporality", BOOLEAN),
        Field("requested_metrics", Array(STRING)),
    ),
)
