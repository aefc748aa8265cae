"""What the node's sensors read. Each read has a deadline; what cannot be read is None, never 0."""
