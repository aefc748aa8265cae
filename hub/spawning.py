"""Why a process could not be started, in words. Pure."""


def why_not(error: OSError) -> str:
    """The system's own sentence, or what stands behind the -1 that uvloop gives when a pipe could not be made."""
    if error.errno is not None and error.errno > 0 and error.strerror:
        return error.strerror
    return "the hub lacks descriptors, processes or memory for it"
