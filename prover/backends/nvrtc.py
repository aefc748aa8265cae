"""NVIDIA's run-time compiler, a library, as a command of its own: it needs no C++ compiler beside it.

``python -m prover.backends.nvrtc LIBRARY version`` prints the version and the architectures, and
``... LIBRARY compile FORM ARCHITECTURE OUTPUT SOURCE INCLUDE...`` compiles. A process of its own can be stopped, and
takes its memory with it.

The library brings no standard headers. What the kernels ask of them are a few names, which are written here.
"""

import ctypes
import sys
from pathlib import Path
from typing import Final

STANDARD_HEADERS: Final[dict[str, str]] = {
    "cstddef": "#pragma once\nnamespace std { using size_t = decltype(sizeof(0)); }\n",
    "cstdint": """#pragma once
namespace std {
using uint8_t = unsigned char;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using int64_t = long long;
}
""",
    "cstring": "#pragma once\n",
    "utility": "#pragma once\n",
}
"""What an NVRTC without a toolkit beside it lacks."""

_SUCCESS: Final = 0


def load(path: str) -> ctypes.CDLL:
    """Return the library.

    Raises:
        OSError: there is none.
    """
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def version_of(library: ctypes.CDLL) -> tuple[tuple[int, int], list[int]]:
    """Return its version and the architectures it knows, such as 90."""
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    _check(library, library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    found = (ctypes.c_int * count.value)()
    _check(library, library.nvrtcGetSupportedArchs(found))
    return (major.value, minor.value), list(found)


def compile_source(library: ctypes.CDLL, form: str, architecture: int, source: Path, includes: list[str]) -> bytes:
    """Return what a source compiles to.

    Args:
        library: from `load`.
        form: ``cubin`` or ``ptx``.
        architecture: such as 90.
        source: the file.
        includes: options that name where its headers are.

    Raises:
        SystemExit: with the compiler's own words.
    """
    program = ctypes.c_void_p()
    count = len(STANDARD_HEADERS)
    texts = (ctypes.c_char_p * count)(*(text.encode() for text in STANDARD_HEADERS.values()))
    names = (ctypes.c_char_p * count)(*(name.encode() for name in STANDARD_HEADERS))
    code = library.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), count, texts, names
    )
    _check(library, code)
    target = f"--gpu-architecture={'sm' if form == 'cubin' else 'compute'}_{architecture}"
    options = ["--std=c++17", "--device-int128", "--generate-line-info", "--device-as-default-execution-space", target]
    options += includes
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = library.nvrtcCompileProgram(program, len(options), given)
    if code != _SUCCESS:
        sys.exit(_output(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace"))
    return _output(library, program, "CUBIN" if form == "cubin" else "PTX")


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """Return one of a program's outputs."""
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(library: ctypes.CDLL, code: int) -> None:
    if code != _SUCCESS:
        sys.exit(f"error: {library.nvrtcGetErrorString(code).decode()}")


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    path, action, *rest = arguments
    library = load(path)
    if action == "version":
        (major, minor), architectures = version_of(library)
        print(f"{major}.{minor}", *architectures)  # noqa: T201 - the answer
        return
    form, architecture, output, source, *includes = rest
    Path(output).write_bytes(compile_source(library, form, int(architecture), Path(source), includes))


if __name__ == "__main__":
    main(sys.argv[1:])
