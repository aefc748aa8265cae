"""nginx in front of the hub, and which programs of the system are missing."""

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.e2e.rig import until

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  # No timeout is named: nginx's defaults of 60 s are what is tried.
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{target};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
    }}
  }}
}}
"""


def missing() -> str | None:
    """The line that installs what is missing."""
    nginx = shutil.which("nginx") or Path("/usr/sbin/nginx").exists()
    names = [name for name, there in (("gcc", shutil.which("gcc")), ("nginx-light", nginx)) if not there]
    return f"a tool is missing: apt-get install {' '.join(names)}" if names else None


def skip_if_missing() -> None:
    if reason := missing():
        pytest.skip(reason)


class Nginx:
    """nginx between agents and hub, with its defaults."""

    def __init__(self, folder: Path, target_port: int) -> None:
        self._folder = folder
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._config = folder / "nginx.conf"
        self._config.write_text(NGINX.format(folder=folder, port=self.port, target=target_port))
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        log = self._folder / "stderr.log"
        with log.open("ab") as output:
            child = subprocess.Popen([program, "-c", self._config], stdout=output, stderr=output)
        self._child = child

        def answers() -> bool:
            assert child.poll() is None, log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until(answers, "nginx to listen")

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait(timeout=30)
