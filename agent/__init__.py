"""The agent: the daemon of one node. Dials out to the hub, pushes what it knows, and has proofs made by workers.

Imports `wire` and `prover` only; never `hub`, `cli` or `kernels`: kernels run in worker processes.
"""
