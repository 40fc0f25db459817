"""The image and the compose file refer only to files that exist, and the example needs no image that is not built here."""

import re
from pathlib import Path

import yaml

from coordinator.config.load import load

REPOSITORY = Path(__file__).resolve().parents[2]
SERVICES = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()


def test_what_is_copied_into_the_image_is_there_and_reaches_the_builder():
    sent = {
        line.removeprefix("!") for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in [word for word in line.split()[:-1] if not word.startswith("--")]:
            assert (REPOSITORY / source).exists(), source
            assert source.split("/")[0] in sent, source


def test_the_image_holds_the_licence():
    server = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^COPY LICENSE /", server, re.MULTILINE)


def test_the_server_runs_without_root_and_with_a_health_check():
    server = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!0|root)", server, re.MULTILINE)
    assert "HEALTHCHECK" in server
    assert re.findall(r"^VOLUME (.+)$", server, re.MULTILINE) == ["/data"]


def test_the_image_holds_the_code_of_all_messages_where_the_server_looks_for_it():
    build, _, server = DOCKERFILE.rpartition("\nFROM ")
    [stored] = re.findall(r"COORDINATOR_CACHE_DIR=(\S+) \S+ protocol precompile", build)
    assert f"COORDINATOR_CACHE_DIR={stored}" in server
    [copied] = re.findall(r"^COPY --from=build (\S+)", server, re.MULTILINE)
    assert stored.startswith(f"{copied}/")


def test_services_whose_images_are_not_built_here_are_behind_a_profile():
    for name, service in SERVICES.items():
        assert "build" in service or service.get("profiles"), name


def test_mounted_files_are_there():
    for service in SERVICES.values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert not source.startswith(".") or (REPOSITORY / source).exists(), mount


def test_the_settings_of_the_compose_file_are_settings():
    environment = {
        name: re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text) for name, text in SERVICES["coordinator"]["environment"].items()
    }
    config = load(REPOSITORY / "config" / "container.yaml", environment=environment)
    assert [(each.port, each.advertised_host) for each in config.listeners] == [
        (9092, "coordinator"),
        (29092, "localhost"),
    ]
    assert config.groups.group_initial_rebalance_delay_ms == 0


def test_prometheus_scrapes_the_admin_port_of_the_service():
    config = yaml.safe_load((REPOSITORY / "monitoring" / "prometheus.yml").read_text())
    [target] = config["scrape_configs"][0]["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in SERVICES
    assert int(port) == load(REPOSITORY / "config" / "container.yaml").admin.port


def test_prometheus_scrapes_all_workers_of_the_other_compose_file():
    services = yaml.safe_load((REPOSITORY / "docker-compose.workers.yml").read_text())["services"]
    config = yaml.safe_load((REPOSITORY / "monitoring" / "prometheus.workers.yml").read_text())
    port = load(REPOSITORY / "config" / "container.yaml").admin.port
    [job] = config["scrape_configs"]
    assert job["job_name"] == "coordinator", "the name that the alerts expect"
    assert job["static_configs"][0]["targets"] == [f"{name}:{port}" for name in services if name.startswith("worker-")]
    mounted = [each.partition(":")[0] for name in ("prometheus", "grafana") for each in services[name]["volumes"]]
    assert "./monitoring/prometheus.workers.yml" in mounted
    assert all((REPOSITORY / each).exists() for each in mounted)


def test_the_workers_of_the_other_compose_file_share_one_journal():
    services = yaml.safe_load((REPOSITORY / "docker-compose.workers.yml").read_text())["services"]
    database = services.pop("postgresql")
    services = {name: service for name, service in services.items() if "profiles" not in service}
    configs = [
        load(REPOSITORY / "config" / "container.yaml", environment=service["environment"])
        for service in services.values()
    ]
    assert len({config.node_id for config in configs}) == len(configs) == 3
    assert [config.listeners[0].advertised_host for config in configs] == list(services)
    assert {config.shared.data_plane for config in configs} == {"none"}
    role, password = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_PASSWORD"]
    assert {str.__str__(config.shared.journal) for config in configs} == {
        f"postgresql://{role}:{password}@postgresql/{role}"
    }


def test_the_image_has_the_driver_of_the_shared_journal():
    [requirements] = re.findall(
        r"--require-hashes -r (requirements/(?!sbom|example)\S+)", DOCKERFILE.rpartition("AS sbom")[0]
    )
    assert re.search(r"^asyncpg==", (REPOSITORY / requirements).read_text(), re.MULTILINE)
