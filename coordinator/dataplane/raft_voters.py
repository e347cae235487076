"""AddRaftVoter and RemoveRaftVoter: always refused, because with `kraft.version` 0 the voters cannot be changed.

Shown by tests/conformance/stories/admin_features.py.
"""

from typing import Final

from coordinator.core.refusal import Refusal
from coordinator.core.topics import NO_ID
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

_FIXED: Final = Refusal(ErrorCode.UNSUPPORTED_VERSION, "The voters of this cluster cannot be changed.")


def add_raft_voter(state: State, request: AddRaftVoterRequest, env: Env) -> AddRaftVoterResponse:
    """Refuse to add a voter."""
    wrong = _choose_refusal(state, request, is_complete=bool(request.listeners))
    return AddRaftVoterResponse(error_code=wrong.error, error_message=wrong.message)


def remove_raft_voter(state: State, request: RemoveRaftVoterRequest, env: Env) -> RemoveRaftVoterResponse:
    """Refuse to remove a voter."""
    wrong = _choose_refusal(state, request, is_complete=True)
    return RemoveRaftVoterResponse(error_code=wrong.error, error_message=wrong.message)


def _choose_refusal(
    state: State, request: AddRaftVoterRequest | RemoveRaftVoterRequest, *, is_complete: bool
) -> Refusal:
    if request.cluster_id is not None and request.cluster_id != state.cluster_id:
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster.")
    if request.voter_id < 0 or request.voter_directory_id == NO_ID or not is_complete:
        return Refusal(ErrorCode.INVALID_REQUEST, "The request does not name a voter.")
    return _FIXED
