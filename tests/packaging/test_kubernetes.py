"""The Kubernetes manifest fits Kubernetes' schemas, and the server has the settings, ports and probes that it refers to."""

import copy
import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from coordinator.admin.health import ENDPOINTS, live
from coordinator.config.load import ineffective_variables, load
from coordinator.config.settings import ServerConfig

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFEST = list(yaml.safe_load_all((REPOSITORY / "kubernetes" / "workers.yaml").read_text()))
SERVER = (REPOSITORY / "Dockerfile").read_text().rpartition("\nFROM ")[2]
OLDEST = "1.30"
"""As the manifest says; from this version on a preStop hook can sleep."""
URL = "postgresql://coordinator:secret@db/coordinator"
NAMESPACE = "streams"


def objects(kind: str) -> dict:
    return {each["metadata"]["name"]: each for each in MANIFEST if each["kind"] == kind}


[WORKERS] = [each["spec"] for each in objects("StatefulSet").values()]
POD = WORKERS["template"]["spec"]
[CONTAINER] = POD["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
PROBES = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}


def environment(index: int) -> dict[str, str]:
    """The variables of a pod, as the kubelet makes them: a variable may use those before it."""
    fields = {
        "metadata.name": f"coordinator-{index}",
        "metadata.namespace": NAMESPACE,
        "metadata.labels['apps.kubernetes.io/pod-index']": str(index),
    }
    made: dict[str, str] = {}
    for variable in CONTAINER["env"]:
        match variable:
            case {"value": text}:
                made[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: made[match[1]], text)
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                made[variable["name"]] = fields[path]
            case {"valueFrom": {"secretKeyRef": {"name": "coordinator-journal", "key": "url"}}}:
                made[variable["name"]] = URL
            case _:
                raise AssertionError(variable)
    return made


def config(index: int) -> ServerConfig:
    return load(REPOSITORY / "config" / "container.yaml", environment=environment(index))


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_each_object_fits_the_schema_of_its_kind(version):
    assert len(MANIFEST) == 4
    for each in MANIFEST:
        assert version.startswith(kubernetes_validate.validate(each, version, strict=True))


def test_the_schema_refuses_a_misspelt_probe_and_a_hook_that_is_too_new():
    [workers] = objects("StatefulSet").values()
    with pytest.raises(kubernetes_validate.ValidationError, match="sleep"):
        kubernetes_validate.validate(workers, "1.28", strict=True)
    wrong = copy.deepcopy(workers)
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessprobe"):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


def test_each_worker_has_an_id_and_an_address_of_its_own_and_all_share_one_journal():
    configs = [config(index) for index in range(WORKERS["replicas"])]
    assert [each.node_id for each in configs] == [0, 1, 2]
    names = objects("Service")[WORKERS["serviceName"]]
    assert (names["spec"]["clusterIP"], names["spec"]["publishNotReadyAddresses"]) == ("None", True)
    listeners = [each.listeners for each in configs]
    assert [(listener.advertised_host, listener.advertised_port) for [listener] in listeners] == [
        (f"coordinator-{index}.{names['metadata']['name']}.{NAMESPACE}.svc", PORTS["kafka"]) for index in range(3)
    ]
    assert {str.__str__(each.shared.journal) for each in configs} == {URL}
    assert {each.shared.data_plane for each in configs} == {"none"}


def test_every_variable_has_an_effect():
    assert ineffective_variables(environment(0)) == []


def test_the_password_is_in_a_secret():
    [journal] = [each for each in CONTAINER["env"] if each["name"] == "COORDINATOR_JOURNAL"]
    assert "value" not in journal
    assert objects("Secret") == {}
    assert "postgresql://" not in (REPOSITORY / "kubernetes" / "workers.yaml").read_text()


def test_probes_ask_paths_that_exist_without_credentials_where_admin_http_listens():
    answered = {endpoint.path: endpoint for endpoint in ENDPOINTS if endpoint.method == "GET" and endpoint.is_open}
    for probe in PROBES.values():
        assert probe["path"] in answered
        assert PORTS[probe["port"]] == config(0).admin.port
    assert config(0).admin.host == "0.0.0.0"


def test_a_worker_that_has_lost_the_database_is_not_restarted():
    handlers = {endpoint.path: endpoint.handle for endpoint in ENDPOINTS}
    assert handlers[PROBES["livenessProbe"]["path"]] is live
    assert handlers[PROBES["startupProbe"]["path"]] is live
    assert handlers[PROBES["readinessProbe"]["path"]] is not live


def test_a_stop_has_time_for_the_last_appends_the_release_of_the_shards_and_the_last_responses():
    shared = config(0).shared
    needed_ms = 2 * shared.journal_append_timeout_ms + config(0).shutdown_time_ms
    pre_stop_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pre_stop_s + needed_ms / 1_000 < POD["terminationGracePeriodSeconds"]


def test_services_the_budget_and_the_spread_select_the_workers():
    labels = WORKERS["template"]["metadata"]["labels"]
    [budget] = objects("PodDisruptionBudget").values()
    assert budget["spec"]["maxUnavailable"] == 1
    selectors = [WORKERS["selector"], budget["spec"]["selector"]]
    selectors += [each["labelSelector"] for each in POD["topologySpreadConstraints"]]
    assert {tuple(each["matchLabels"].items()) for each in selectors} == {tuple(labels.items())}
    for service in objects("Service").values():
        assert service["spec"]["selector"] == labels
        for port in service["spec"]["ports"]:
            assert port["port"] == PORTS[port["targetPort"]]
    assert PORTS["kafka"] == config(0).listeners[0].port


def test_the_container_is_the_user_of_the_image_and_writes_to_the_data_folder_only():
    [user] = re.findall(r"^USER (\d+):(\d+)$", SERVER, re.MULTILINE)
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == tuple(map(int, user))
    assert context["runAsNonRoot"]
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    [mount], [volume] = CONTAINER["volumeMounts"], POD["volumes"]
    assert mount["mountPath"] == config(0).log_dir
    assert mount["name"] == volume["name"]
    assert "emptyDir" in volume
