"""A cuzk-daemon's two doors on real sockets: the hand-written HTTP status, and gRPC by grpcio.

Threads serve both, so that any test, with a loop or without, can use it. ``play`` makes the HTTP side misbehave.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

READ_BYTES = 4096
Play = Callable[[socket.socket, threading.Event], None]
"""Answers one connection in its own way; the event is set when the daemon ends."""


class FakeDaemon:
    """Serves ``status`` over HTTP. ``stop`` kills it, ``start`` runs it again on the same port."""

    def __init__(self, status: Callable[[], Any]) -> None:
        self.status = status
        self.play: Play | None = None
        self.requests: list[bytes] = []
        self.port = 0
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()

    def start(self) -> "FakeDaemon":
        self._ended = threading.Event()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(16)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._begin(lambda: self._accept(listener))
        return self

    def stop(self) -> None:
        """As a kill: the port is closed and so is every connection."""
        self._ended.set()
        for each in (self._listener, *self._open):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._listener = None
        for thread in self._threads:
            thread.join(timeout=10)
        self._threads.clear()

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._open.add(connection)
            self._begin(lambda connection=connection: self._serve(connection))  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request = connection.recv(READ_BYTES)  # once, as it does
            self.requests.append(request)
            if self.play is not None:
                self.play(connection, self._ended)
            elif request.startswith(b"GET /status"):
                connection.sendall(answer(json.dumps(self.status()).encode()))
            else:
                connection.sendall(answer(b"Not Found", status="404 Not Found", kind="text/plain"))
        self._open.discard(connection)
        connection.close()


def answer(body: bytes, *, status: str = "200 OK", kind: str = "application/json", length: int | None = None) -> bytes:
    """One answer as the daemon writes it."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}\r\n"
        "Access-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def saying(raw: bytes) -> Play:
    """Sends these bytes, ends its side, and closes when the other side has."""

    def play(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(READ_BYTES):
            pass

    return play


def hanging(connection: socket.socket, ended: threading.Event) -> None:
    """Takes the request and never answers."""
    del connection
    ended.wait(60)


def dripping(connection: socket.socket, ended: threading.Event) -> None:
    """A byte now and then: each read of the client succeeds, and the answer never ends."""
    for byte in answer(b"{" + b" " * 10_000):
        connection.sendall(bytes((byte,)))
        if ended.wait(0.02):
            return


def flooding(connection: socket.socket, ended: threading.Event) -> None:
    """More than anybody wants."""
    connection.sendall(answer(b"", length=1 << 40))
    while not ended.is_set():
        connection.sendall(b" " * 65_536)


@contextlib.contextmanager
def daemon(status: Callable[[], Any]) -> Iterator[FakeDaemon]:
    """A running one."""
    made = FakeDaemon(status).start()
    try:
        yield made
    finally:
        made.stop()


# --- gRPC -----------------------------------------------------------------------------------------------------------

U32, U64, TEXT, ENUM = (
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    descriptor_pb2.FieldDescriptorProto.TYPE_INT32,  # on the wire as the enum
)
SCHEMA: dict[str, dict[str, tuple[int, Any]]] = {
    "Gpu": {
        "ordinal": (1, U32),
        "name": (2, TEXT),
        "vram_total_bytes": (3, U64),
        "vram_free_bytes": (4, U64),
        "current_job_id": (5, TEXT),
        "current_proof_kind": (6, ENUM),
    },
    "Srs": {"circuit_id": (1, TEXT), "tier": (2, ENUM), "size_bytes": (3, U64), "ref_count": (4, U32)},
    "Queue": {"proof_kind": (1, ENUM), "pending": (2, U32), "in_progress": (3, U32)},
    "GetStatusResponse": {
        "gpus": (1, "Gpu"),
        "loaded_srs": (2, "Srs"),
        "queues": (3, "Queue"),
        "total_proofs_completed": (4, U64),
        "total_proofs_failed": (5, U64),
        "uptime_seconds": (6, U64),
        "pinned_memory_bytes": (7, U64),
        "pinned_memory_limit_bytes": (8, U64),
    },
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="proving.proto", package="cuzk.v1", syntax="proto3")
    for title, fields in SCHEMA.items():
        message = file.message_type.add(name=title)
        for name, (number, kind) in fields.items():
            if isinstance(kind, str):
                message.field.add(name=name, number=number, label=3, type=11, type_name=f".cuzk.v1.{kind}")
            else:
                message.field.add(name=name, number=number, label=1, type=kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cuzk.v1.{name}")) for name in SCHEMA}


MESSAGES = _messages()


def status_response(**fields: Any) -> Any:
    """A GetStatusResponse; rows as dicts."""
    return MESSAGES["GetStatusResponse"](**fields)


@contextlib.contextmanager
def grpc_server(reply: Callable[[], Any], *, path: Path | None = None) -> Iterator[str]:
    """A gRPC server that answers GetStatus with ``reply()``, or with the error it raises; its address."""

    def get_status(_: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return bytes(reply().SerializeToString())
        except RuntimeError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    method = grpc.unary_unary_rpc_method_handler(get_status)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("cuzk.v1.ProvingEngine", {"GetStatus": method}),)
    )
    port = server.add_insecure_port(f"unix:{path}" if path is not None else "127.0.0.1:0")
    server.start()
    try:
        yield f"unix://{path}" if path is not None else f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)
