"""Values the agent's tests share."""

from wire.frames import AssignJob
from wire.jobs import Groth16Spec, Input, Output

EPOCHS = [f"01890a5d-ac96-774b-bcce-b302099a{number:04x}" for number in range(8)]
JOB = "01890a5d-ac96-774b-bcce-0000000000aa"
JOB_2 = "01890a5d-ac96-774b-bcce-0000000000bb"
ZKEY = Input(role="zkey", sha256="11" * 32, bytes_=1000)
WTNS = Input(role="wtns", sha256="22" * 32, bytes_=100)
PROOF = Output(role="proof", sha256="33" * 32, bytes_=2, data=b"{}")


def assignment(
    job: str = JOB,
    attempt: int = 1,
    *,
    engine: str = "groth16",
    inputs: list[Input] | None = None,
    lease_s: float = 60.0,
    token: str = "pwj.token",  # noqa: S107 - nobody takes it
) -> AssignJob:
    return AssignJob(
        job=job,
        attempt=attempt,
        lease_s=lease_s,
        engine=engine,
        spec=Groth16Spec(circuit="11" * 32, curve="bn128"),
        inputs=[ZKEY, WTNS] if inputs is None else inputs,
        outputs=["proof", "public"],
        fetch_token=token,
    )
