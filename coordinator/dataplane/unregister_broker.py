"""UnregisterBroker: the brokers are those of this process, and none of them can be gone for good.

Shown by tests/conformance/stories/admin_features.py.
"""

from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def unregister_broker(state: State, request: UnregisterBrokerRequest, env: Env) -> UnregisterBrokerResponse:
    """Refuse to forget a broker: it is running, or there is none of that id."""
    if any(broker.node_id == request.broker_id for broker in env.where.brokers):
        message = f"Broker {request.broker_id} is running, and stays registered."
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    message = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
