"""Compose, Kubernetes, systemd and GitHub Actions: what they say can be read by those whom it is said to."""

import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.cli import Parser
from coordinator.cli.options import read_options
from coordinator.cli.serve import add_arguments
from tests.deploy.programs import need
from tests.live import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = [
    manifest
    for file in ("namespace.yaml", "muster.yaml")
    for manifest in yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text("utf-8"))
]
VERSIONS = ("1.29", "1.34")  # the oldest that has ReadWriteOncePod for all, and a late one


def kind(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in MANIFESTS if one["kind"] == name)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_follow_their_schemas(version: str) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        warnings.warn("NO KUBERNETES SCHEMAS: the manifests are not checked. pip install '.[dev]'", stacklevel=1)
        pytest.skip("kubernetes-validate is not installed")
    for manifest in MANIFESTS:
        kubernetes_validate.validate(manifest, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(kind("StatefulSet") | {"replicas": 1}, version, strict=True)


def test_the_pod_may_do_as_little_as_possible() -> None:
    pod = kind("StatefulSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"].keys() == {"requests", "limits"}
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    mounted = container["volumeMounts"][0]["mountPath"]
    data = next(word for word in container["args"] if word.startswith("--data-dir="))
    assert data.removeprefix("--data-dir=").startswith(mounted)


def test_what_belongs_together_has_the_same_names() -> None:
    labels = kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        kind("StatefulSet")["spec"]["selector"]["matchLabels"],
        kind("Service")["spec"]["selector"],
        kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    container = kind("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert {one["targetPort"]: one["port"] for one in kind("Service")["spec"]["ports"]} == ports
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text("utf-8"))
    assert kustomization["images"][0]["name"] == container["image"]
    assert kustomization["namespace"] == kind("Namespace")["metadata"]["name"]
    assert all((DEPLOY / "kubernetes" / file).exists() for file in kustomization["resources"])


def test_the_server_understands_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs" / "securing.md").read_text("utf-8")
    (tmp_path / "muster.toml").write_text(page.partition("<<'TOML'\n")[2].partition("\nTOML\n")[0])
    pod = kind("StatefulSet")["spec"]["template"]["spec"]
    words = [word.replace("$(NAMESPACE)", "muster") for word in pod["containers"][0]["args"]]
    service = re.search(r"^ExecStart=\S+/muster (.*)$", (DEPLOY / "muster.service").read_text("utf-8"), re.MULTILINE)
    assert service
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["muster"]
    for command, environment in (
        (words, {}),
        (
            service[1]
            .replace("/etc/muster/muster.toml", str(tmp_path / "muster.toml"))
            .replace("%d", "/run/x")
            .split(),
            {},
        ),
        (compose["command"], compose["environment"]),
    ):
        assert command[0] == "serve"
        parser = Parser()
        add_arguments(parser)
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            options = read_options(parser.parse_args(command[1:]))
        assert options.endpoints and not options.ignored
        if command[0:2] == ["serve", "--config"]:  # the unit
            assert [one.protocol for one in options.endpoints] == ["SASL_SSL"]
            assert options.config["sasl.users.file"] == "/run/x/users.txt"


def test_compose_names_files_and_services_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = compose["services"]
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists(), source
        if isinstance(build := service.get("build"), str):
            assert (DEPLOY / build / "Dockerfile").exists()
        assert set(service.get("depends_on", ())) <= services.keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), (
            "nobody on the network is served unasked"
        )
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["muster:8092"]
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text("utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    board = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana/provisioning" / board.partition("provisioning/")[2]).exists()


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = need("systemd-analyze", "systemd")
    unit = tmp_path / "muster.service"
    unit.write_text((DEPLOY / "muster.service").read_text("utf-8").replace("/opt/muster/bin/muster", "/bin/true"))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_actionlint_has_nothing_to_say() -> None:
    program = need("actionlint", "go install github.com/rhysd/actionlint/cmd/actionlint@latest")
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    done = subprocess.run(
        [program, "-no-color", *workflows, DEPLOY / "github-actions.yml"], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_SECONDS
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
