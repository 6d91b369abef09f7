"""The image and the manifests in `deploy`: what they name is there, Kubernetes and Spark know what they say, and the
command lines in them are windrow's.
"""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pyspark
import pytest
import yaml
from dockerfile_parse import DockerfileParser
from packaging.requirements import Requirement

from windrow.cli import windrow
from windrow.java import find_java
from windrow.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SPARK = Path(pyspark.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = [
    (each["instruction"], each["value"])
    for each in DockerfileParser(path=str(DEPLOY / "Dockerfile")).structure
    if each["instruction"] != "COMMENT"
]
MANIFESTS = [each for path in sorted(DEPLOY.glob("kubernetes/*.yaml")) for each in yaml.safe_load_all(path.read_text())]
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.28.0", kubernetes_validate.latest_version()


def said(instruction: str) -> list[str]:
    return [value for name, value in DOCKERFILE if name == instruction]


def titled(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def named(kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in MANIFESTS if each["kind"] == kind}


def values(node: Any, key: str) -> Iterator[Any]:
    """Every value of a key, anywhere in a manifest."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from values(value, key)
    elif isinstance(node, list):
        for each in node:
            yield from values(each, key)


PODS = [(titled(each), spec) for each in MANIFESTS for spec in values(each, "template")]
CONTAINERS = [(title, container) for title, pod in PODS for container in pod["spec"]["containers"]]
ALL_CONTAINERS = pytest.mark.parametrize(
    "container", [each for _, each in CONTAINERS], ids=[name for name, _ in CONTAINERS]
)


def test_the_image_is_made_of_what_is_there() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for line in said("COPY") for source in line.split()[:-1]}
    assert copied == kept
    assert [each for each in copied if not (ROOT / each).exists()] == []


def test_the_image_has_the_python_and_java_that_windrow_runs_on() -> None:
    (base,) = said("FROM")
    python = re.match(r"python:(\d+\.\d+)-", base)
    assert python
    assert PROJECT["requires-python"] == f">={python[1]}"
    assert f"/python{python[1]}/site-packages/pyspark" in said("ENV")[0]
    assert re.search(r"openjdk-(17|21)-jre-headless", said("RUN")[0])


def test_the_image_installs_extras_that_there_are_in_versions_that_are_tested(tmp_path: Path) -> None:
    install = next(line for line in said("RUN") if "pip install" in line)
    extras = re.search(r"'\.\[([a-z,-]+)\]'", install)
    assert extras
    assert {*extras[1].split(",")} <= {*PROJECT["optional-dependencies"]}
    (tmp_path / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    subprocess.run(["sh", "-c", install.partition("&&")[0]], cwd=tmp_path, check=True)
    pinned = [Requirement(line) for line in (tmp_path / "constraints.txt").read_text().splitlines()]
    assert {"pyspark", "confluent-kafka", "psycopg"} <= {each.name for each in pinned}


def test_the_image_runs_without_root_what_was_copied_into_it() -> None:
    assert said("USER") == ["185"]
    targets = {line.split()[-1] for line in said("COPY")}
    assert yaml.safe_load(said("ENTRYPOINT")[0]) == ["/opt/entrypoint.sh"]
    assert {"/opt/entrypoint.sh", "/opt/windrow/submit.py"} <= targets


@pytest.mark.parametrize("script", [*said("RUN"), (DEPLOY / "entrypoint.sh").read_text()], ids=lambda text: text[:20])
def test_scripts_parse(script: str) -> None:
    checked = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_an_executor_is_started_as_this_spark_wants_it() -> None:
    script = (DEPLOY / "entrypoint.sh").read_text()
    (backend,) = re.findall(r"org\.apache\.spark\.\S+", script)
    command = [find_java(), "-cp", f"{SPARK}/jars/*", backend, "--nonsense"]
    usage = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr
    given = set(re.findall(r"^ +(--[a-zA-Z-]+) ", script[script.index(backend) :], re.MULTILINE))
    assert len(given) == 7
    assert given <= set(re.findall(r"--[a-zA-Z-]+", usage))


def known_to_spark() -> bytes:
    """What the classes of Spark on Kubernetes have as constants."""
    (jar,) = SPARK.glob("jars/spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        return b"".join(classes.read(name) for name in classes.namelist() if name.endswith(".class"))


def test_spark_knows_the_variables_and_settings_of_kubernetes_that_are_named() -> None:
    text = (DEPLOY / "entrypoint.sh").read_text() + (DEPLOY / "kubernetes/spark-submit.yaml").read_text()
    constants = known_to_spark()
    variables = {*re.findall(r"\$\{?(SPARK_[A-Z_]+)", text)} - {"SPARK_HOME"}
    keys = {*re.findall(r"spark\.kubernetes\.[\w.]+", text)}
    assert len(variables) > 8
    assert len(keys) == 4
    stems = {each.removeprefix("spark.kubernetes.authenticate.") for each in keys}
    assert [each for each in (*variables, *stems) if each.encode() not in constants] == []


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=titled)
def test_kubernetes_knows_every_field(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_check_sees_a_field_that_is_not_there() -> None:
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "dada": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NEWEST_KUBERNETES, strict=True)


@pytest.mark.parametrize(("title", "pod"), PODS, ids=[title for title, _ in PODS])
def test_pods_refer_to_what_is_there(title: str, pod: dict[str, Any]) -> None:
    owner = next(each for each in MANIFESTS if titled(each) == title)
    spec = pod["spec"]
    if "selector" in owner["spec"]:
        assert owner["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert {each["name"] for each in values(spec, "configMap")} <= named("ConfigMap")
    assert {each["name"] for each in values(spec, "secretRef")} <= named("Secret")
    assert {*values(spec, "serviceAccountName")} <= named("ServiceAccount")
    volumes = {each["name"] for each in spec["volumes"]}
    assert {each["name"] for mounts in values(spec, "volumeMounts") for each in mounts} == volumes
    assert spec["securityContext"]["runAsUser"] == int(said("USER")[0])


def test_roles_are_bound_to_the_account_that_drivers_run_under() -> None:
    (binding,) = [each for each in MANIFESTS if each["kind"] == "RoleBinding"]
    assert {binding["roleRef"]["name"]} <= named("Role")
    assert {each["name"] for each in binding["subjects"]} <= named("ServiceAccount")


def test_the_settings_are_valid(tmp_path: Path) -> None:
    (settings,) = [each for each in MANIFESTS if each["kind"] == "ConfigMap"]
    for name, text in settings["data"].items():
        path = tmp_path / name
        path.write_text(text)
        assert Settings.load(path, environment={}).name == "shop"


def rendered(container: dict[str, Any]) -> list[str]:
    """A container's arguments as Kubernetes gives them, with a made-up value for each of the pod's variables."""
    variables = {each["name"]: "10.0.0.7" if "IP" in str(each) else "shop-1" for each in container.get("env", ())}
    return [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], each) for each in container["args"]]


def words_of_windrow(arguments: list[str]) -> list[str]:
    starts = [place for place, word in enumerate(arguments) if word in {"windrow", "/opt/windrow/submit.py"}]
    return arguments[starts[-1] + 1 :]


@ALL_CONTAINERS
def test_containers_run_commands_that_windrow_has(container: dict[str, Any]) -> None:
    name, *words = words_of_windrow(rendered(container))
    command = windrow.get_command(click.Context(windrow), name)
    assert command is not None
    with command.make_context(name, [*words]):
        pass
    assert words[-1].startswith(container["volumeMounts"][0]["mountPath"])


@ALL_CONTAINERS
def test_containers_run_the_image_of_this_version(container: dict[str, Any]) -> None:
    images = {container["image"], *re.findall(r"container\.image=(\S+)", " ".join(container["args"]))}
    assert {image.rpartition(":")[2] for image in images} == {PROJECT["version"]}


def test_spark_submit_takes_the_drivers_command_line() -> None:
    """The arguments as rendered, by the real spark-submit, on a master that is there; windrow then only shows help."""
    driver = next(each for _, each in CONTAINERS if each["args"][0] == "driver")
    arguments = [
        {
            "/opt/windrow/submit.py": str(ROOT / "examples/submit.py"),
            "k8s://https://kubernetes.default.svc": "local[1]",
        }.get(each, each)
        for each in rendered(driver)[1:]
    ]
    run = subprocess.run(
        [SPARK / "bin/spark-submit", "--verbose", *arguments, "--help"],
        env={**os.environ, "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert "Publish the outbox to Kafka" in run.stdout
    assert "(spark.kubernetes.driver.pod.name,shop-1)" in run.stdout + run.stderr
    assert "(spark.driver.host,10.0.0.7)" in run.stdout + run.stderr
    assert "Warning: Ignoring non-Spark" not in run.stderr
