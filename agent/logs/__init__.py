"""Logs on their way to the hub: our own records, the workers', files and journald units the operator names."""
