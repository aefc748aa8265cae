"""The worker: a process of its own that owns one device and proves for the agent of its node.

`process` is the process and what it does with frames, `link` one connection, `results` what is kept on disk, `lock` who
has the folder, `engine` what is asked of an engine, `engines` those there are. This is the one part of the prover that
speaks `wire`.
"""
