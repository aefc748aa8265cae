"""The executable specification of the kernels: plain Python integers, clear before fast.

Kernels are tested against it; the verifier runs on it. Nothing here runs in constant time, and nothing needs to:
it sees public values only, except in tests.
"""
