import os
from pathlib import Path

import pytest

from agent.sensors.container import container
from tests.agent.sensors.trees import V1_CONTAINER, V1_HOST, V2_CONTAINER, V2_HOST, planted

OVERLAY = {"proc/self/mountinfo": "616 512 0:50 / / rw - overlay overlay rw\n"}


@pytest.mark.parametrize(
    ("tree", "environ", "kind"),
    [
        (V2_HOST, {}, "none"),
        (V1_HOST, {}, "none"),
        ({}, {}, "none"),
        (V2_CONTAINER, {}, "docker"),
        (V1_CONTAINER, {}, "docker"),
        (V2_CONTAINER, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n"}, {}, "kubernetes"),
        ({"run/.containerenv": 'engine="podman"\n'}, {}, "podman"),
        ({}, {"container": "lxc"}, "lxc"),
        ({"run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({}, {"container": "<script>"}, "container"),
        (OVERLAY, {}, "container"),
    ],
)
def test_the_kind_of_container_is_told(
    tmp_path: Path, tree: dict[str, str], environ: dict[str, str], kind: str
) -> None:
    assert container(environ, planted(tmp_path, tree)) == kind


def test_this_machine_has_an_answer() -> None:
    assert container(os.environ)
