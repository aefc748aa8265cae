"""The SSH fallback: OpenSSH's own client as a child process, every word it says kept, the cause named."""
