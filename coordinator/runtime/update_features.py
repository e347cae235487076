"""UpdateFeatures: the levels of features are fixed here; a change is validated as by Kafka, and not done.

Kafka: `FeatureControlManager.updateFeatures`.

Shown by tests/conformance/stories/admin_features.py.
"""

from typing import Final

from coordinator.core.decision import answers
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.runtime.api_versions import FEATURES, Feature
from coordinator.runtime.engine import Engine
from protocol.errors import ErrorCode
from protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseUpdatableFeatureResult,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_KINDS: Final = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
_ONE_LEVEL: Final = frozenset({"metadata.version"})  # features of which only the level that is in force is spoken
_BY_NAME: Final = {feature.name: feature for feature in FEATURES}


@answers
def update_features(engine: Engine, request: UpdateFeaturesRequest, call: Call, where: Where) -> UpdateFeaturesResponse:
    """Accept levels that are in force; of other ones say whether they would be accepted."""
    for update in request.feature_updates:
        wrong = _validate(update, call.version, is_done=not request.validate_only)
        if wrong is not None:
            return UpdateFeaturesResponse(error_code=wrong.error, error_message=wrong.message)
    results = [
        UpdateFeaturesResponseUpdatableFeatureResult(update.feature, error_message="NONE")
        for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=tuple(results))


def _validate(update: UpdateFeaturesRequestFeatureUpdateKey, version: int, *, is_done: bool) -> Refusal | None:
    feature, level = _BY_NAME.get(update.feature), update.max_version_level
    if feature is None:
        return _invalid(f"The feature {update.feature} is not known.")
    kind = update.upgrade_type
    if version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if kind not in _KINDS:
        return _invalid(f"Unknown kind of update: {kind}")
    if not feature.lowest <= level <= feature.highest:
        return _invalid(f"{feature.name} can have a level from {feature.lowest} to {feature.highest}, not {level}.")
    if level == feature.level:
        return None
    return _of_change(feature, level, kind, is_done=is_done)


def _of_change(feature: Feature, level: int, kind: int, *, is_done: bool) -> Refusal | None:
    if level < feature.level and kind == UPGRADE:
        return _invalid(f"{feature.name} has level {feature.level}, and {level} is a downgrade.")
    if feature.name in _ONE_LEVEL or is_done:
        return _invalid(f"{feature.name} has level {feature.level} here, and keeps it.")
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, message)
