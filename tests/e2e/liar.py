"""A worker that lies, as a rented host could make it: ``liar.py DIR FILE`` answers every job with FILE as its proof.

Speaks the real worker protocol on DIR/worker.sock, so that a real agent adopts it.
"""

import asyncio
import hashlib
import os
import sys
import time
from pathlib import Path

from wire import codec
from wire.jobs import Output
from wire.worker import Ended, Greeting, Ping, Pong, Prove


async def serve(folder: Path, proof: bytes) -> None:
    output = Output(role="proof", sha256=hashlib.sha256(proof).hexdigest(), bytes_=len(proof), data=proof)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started_ms = int(time.time() * 1000)
        greeting = Greeting(pid=os.getpid(), device="host", started_ms=started_ms, version="0")
        writer.write(codec.length_prefixed(greeting))
        frames = codec.StreamReader()
        while data := await reader.read(65536):
            for packed in frames.feed(data):
                frame = codec.decode_to_worker(packed)
                if isinstance(frame, Ping):
                    writer.write(codec.length_prefixed(Pong(number=frame.number)))
                elif isinstance(frame, Prove):
                    ended = Ended(job=frame.job, attempt=frame.attempt, code=0, outputs=[output])
                    writer.write(codec.length_prefixed(ended))
        writer.close()

    server = await asyncio.start_unix_server(talk, folder / "worker.sock")
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, mode=0o700, exist_ok=True)
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
