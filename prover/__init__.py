"""prover."""
