"""The files of ``examples/deploy``, as far as they can be checked without containers (issue 22); `make image` runs them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml
from sources import ROOT

from hiveacid.cli.serve import serve
from hiveacid.cli.services import services
from hiveacid.cli.web import web
from hiveacid.services.http_server import PROBES

DEPLOY = ROOT / "examples" / "deploy"


def _container() -> dict[str, Any]:
    deployment = yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    container: dict[str, Any] = pod["spec"]["containers"][0]
    grace = next(word for word in container["args"] if word.startswith("--grace="))
    assert pod["spec"]["terminationGracePeriodSeconds"] > int(grace.partition("=")[2])
    return container


def test_the_deployment_gives_arguments_that_the_command_has() -> None:
    container = _container()
    command, *words = container["args"]
    assert command == services.name
    parsed = services.make_context("services", words).params
    assert parsed["listen"] == "0.0.0.0"  # noqa: S104 - probes only
    assert parsed["token_file"] is None
    assert parsed["port"] == container["ports"][0]["containerPort"]
    assert container["env"][0]["name"] == "HIVEACID_STORE"


def test_the_probes_need_no_token() -> None:
    container = _container()
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["path"] for probe in probes} == PROBES
    assert {probe["port"] for probe in probes} == {container["ports"][0]["name"]}


def test_the_image_installs_extras_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"\[([a-z,]+)\]\"", text)
    assert named
    assert set(named[0].split(",")) <= set(project["optional-dependencies"])
    last = text.rpartition("\nFROM ")[2]
    assert [line.split()[0] for line in last.splitlines() if line.startswith(("USER", "ENTRYPOINT"))] == [
        "USER", "ENTRYPOINT",
    ]  # fmt: skip


def test_the_compose_file_gives_arguments_that_the_commands_have(tmp_path: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    text = text.replace("/run/secrets", str(tmp_path)).replace("${HOST_NAME:-localhost}", "localhost")
    compose = yaml.safe_load(text)
    for name in compose["secrets"]:
        (tmp_path / name).touch()
    commands = {"serve": serve, "services": services, "web": web}
    ours = {name: one for name, one in compose["services"].items() if one["image"] == "hiveacid"}
    assert ours.keys() == commands.keys()
    for name, one in ours.items():
        command, *words = one["command"]
        assert command == commands[name].name
        parsed = commands[name].make_context(command, words).params
        for port in one.get("ports", ()):
            assert port == f"{parsed['port']}:{parsed['port']}"
        if "healthcheck" in one:
            assert f":{parsed.get('health_port') or parsed['port']}/ready" in one["healthcheck"]["test"][-1]
        if "grace" in parsed:
            assert int(one["stop_grace_period"].removesuffix("s")) > parsed["grace"] + 20
        assert one["depends_on"].keys() <= compose["services"].keys()
        assert {volume.partition(":")[0] for volume in one["volumes"]} <= compose["volumes"].keys()


def test_the_commands_are_a_shell_script() -> None:
    script = DEPLOY / "submit.sh"
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    done = subprocess.run([script, "p.py", "nowhere"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "usage: submit.sh PROGRAM [yarn-cluster|yarn-client|py-files]\n",
    )
