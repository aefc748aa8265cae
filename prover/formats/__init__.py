"""Files around a proof: proving keys, witnesses and JSON, as snarkjs and circom write them.

Every count, size and range is checked before it is used; whatever the bytes, a reader ends with a value or with
an error of ``prover.errors`` that names the file and the field.
"""
