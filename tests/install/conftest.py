"""Both wheels of this checkout, built once, and an environment that they are installed in, for what leaves it as it is."""

import pytest

from tests.install.environments import ROOT, Environment, Wheels, build_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    folder = tmp_path_factory.mktemp("wheels")
    return Wheels(build_wheel(folder, ROOT), build_wheel(folder, ROOT / "pytest-muster"))


@pytest.fixture(scope="session")
def installed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("installed") / "env")
    environment.install(*wheels)
    return environment
