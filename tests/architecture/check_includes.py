#!/usr/bin/env python3
"""Rooms stand in one line: a room includes itself and rooms to its left, through <sluice/room/file.h>.

Also: detail/ only from its own room (tests may look inside), CUDA headers only in device files (samples
and tests are users: they may name CUDA), Asio only in its door.
"""
import re

import checker

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA = re.compile(r"^(cuda|cublas|cudnn|curand|cusolver|cusparse|cufft|nvrtc|nvtx|nvToolsExt|nccl|cub/|thrust/|"
                  r"cooperative_groups|device_launch_parameters|driver_types|mma\.h)")
ASIO_DOOR = "engine/asio.h"
# Inner headers with guests: (header, rooms that may include it, why).
OPEN = [
    ("ndarray/detail/array_object.h", ("operator", "gluon"),
     "operator defines NDArray's recorded members; gluon fills batches and reads versions of buffers"),
    ("ndarray/detail/abstract_version.h", ("operator",), "who takes calls counts writes where there is no memory"),
    ("ndarray/detail/autocast_here.h", ("operator",), "which casts calls; the walk back of the tape does without"),
    ("ndarray/detail/deposits.h", ("gluon",), "gradients that a trainer has unscaled are so until backward computes others"),
    ("ndarray/detail/buffers_kept.h", ("operator",), "plans keep the memory that recorded tasks use"),
    ("ndarray/detail/located.h", ("operator", "gluon"), "calls of every room add the user's line to their errors"),
    ("ndarray/detail/shape_watch.h", ("operator", "gluon"),
     "traces see what a program asks of arrays; operators and layers that do the same for all sizes ask unseen"),
    ("engine/detail/region_branch.h", ("operator",), "branches of a graph become branches of a plan's region"),
    ("engine/detail/own_launch.h", ("operator",), "a graph for host values is launched by the thread that calls it"),
    ("ndarray/detail/mapped.h", ("operator",), "and brings them in and out itself"),
    ("engine/detail/engine_access.h", ("storage", "ndarray", "operator", "gluon"),
     "pools free by positions and ask for memory back; small reads learn from a kernel that it has run; sinks are a body's own; plans of a network belong to an engine"),
    ("engine/detail/float_mode.h", ("operator",), "a library whose instructions flush denormals is called by bodies that flush them"),
    ("ndarray/detail/simd_target.h", ("operator",), "vector kernels of both rooms are chosen by one rule"),
    ("ndarray/detail/simd_casts.h", ("operator",), "kernels of half types compute in float"),
    ("ndarray/detail/simd_turn.h", ("operator",), "planes are turned for who reads all channels of a pixel"),
    ("ndarray/detail/copy_kernels.h", ("operator",), "a fused kernel casts among its other calls"),
    ("ndarray/detail/simd_build.h", ("operator",), "and compiled by one"),
    ("engine/detail/node_pool.h", ("ndarray", "operator", "gluon"),
     "arrays and records of calls are recycled as tasks are; servers tell a forked child"),
    ("engine/detail/fork_watch.h", ("storage", "ndarray", "operator", "gluon"),
     "a forked child finds short locks free: of pools, loans, programs, calls"),
    ("engine/detail/unseen_writes.h", ("ndarray", "operator"), "who keeps what it made of memory asks what no push told of"),
    ("ndarray/detail/dlpack.h", ("operator",), "and whether another library has it"),
    ("operator/detail/nothing.h", ("gluon",), "layers of operators have an extent of 0 end as those do"),
    ("engine/detail/per_process.h", ("operator", "gluon"), "or makes anew what they were held for long over"),
    ("engine/detail/static_tls.h", ("ndarray", "operator", "gluon"), "what every call looks up is at a fixed place of its thread"),
    ("engine/detail/push_room.h", ("operator",), "what follows a step has its memory before the step is pushed"),
    ("engine/detail/block_pool.h", ("operator",), "attributes, nodes and records come from recycled blocks"),
    ("ndarray/detail/free_list.h", ("operator",), "nodes of the tape come from the lists that arrays come from"),
    ("engine/detail/thread_number.h", ("operator",), "a plan gives each thread the memory that it used before"),
    ("engine/detail/trace_text.h", ("operator", "gluon"), "pictures and pages of all rooms put text into XML by one function"),
    ("engine/detail/trace_span.h", ("gluon",), "servers show how their batches wait and run"),
    ("engine/detail/published.h", ("gluon",), "hybridized blocks find their programs without a lock; its marks are checked with the engine's protocols"),
    ("engine/detail/this_thread.h", ("gluon",), "a call of a layer belongs to the task that makes it"),
]


def without_device_parts(code):
    """The code with what only nvcc sees (#if ... __CUDACC__ to its #else or #endif) blanked."""
    lines, hidden = [], []
    for line in code.split("\n"):
        directive = re.match(r"[ \t]*#[ \t]*(if|else|elif|endif)", line)
        word = directive.group(1) if directive else ""
        if word == "if":
            hidden.append(re.match(r"[ \t]*#[ \t]*if(def[ \t]+|[ \t]+defined\(?[ \t]*)__CUDACC__", line) is not None)
        elif word in ("else", "elif") and hidden:
            hidden[-1] = False
        elif word == "endif" and hidden:
            hidden.pop()
        lines.append("" if any(hidden) else line)
    return "\n".join(lines)


def offences_of(root, name, text):
    room = name.split("/")[0]
    in_room = room in checker.ROOMS
    code = without_device_parts(checker.code_only(text, keep_directives=True))
    for match in INCLUDE.finditer(code):
        line = code.count("\n", 0, match.start(1)) + 1
        quote, target = match.groups()
        where = f"{name}:{line}: "
        first = target.split("/")[0]
        if in_room and quote == '"':
            yield where + f'"{target}" is not written as <sluice/room/file.h>'
        if quote == "<" and first in checker.ROOMS:
            yield where + f"<{target}> must be written <sluice/{target}>"
        if CUDA.match(target) and in_room and not checker.is_cuda_file(name):
            yield where + f"<{target}> outside engine/cuda, *_cuda.* and device files"
        if target.startswith("sluice/engine/cuda/") and room not in ("engine", "tests") and not checker.is_cuda_file(name):
            yield where + f"<{target}> outside engine, *_cuda.* and device files"
        if target.startswith("boost/asio") and name != ASIO_DOOR and in_room and not name.endswith(".cpp"):
            yield where + f"<{target}> outside {ASIO_DOOR}"
        parts = target.split("/")
        if parts[0] != "sluice":
            continue
        yield from room_offences(root, name, where, room, target, parts)


def room_offences(root, name, where, room, target, parts):
    if parts == ["sluice", "sluice.h"]:
        if room in checker.ROOMS and room != "gluon":
            yield where + "<sluice/sluice.h> is gluon's door to everything"
        return
    if parts == ["sluice", "c_api.h"]:  # a door of operator's
        if room in checker.ROOMS:
            yield where + "<sluice/c_api.h> is for other languages"
        return
    other = parts[1]
    if other not in checker.ROOMS:
        yield where + f"<{target}> names no room"
        return
    if not (checker.pathlib.Path(root) / "/".join(parts[1:])).is_file():
        yield where + f"<{target}> does not exist"
    if room in checker.ROOMS and checker.ROOMS.index(other) > checker.ROOMS.index(room):
        yield where + f"room {room} includes <{target}> to its right"
    invited = any("/".join(parts[1:]) == header and room in rooms for header, rooms, _ in OPEN)
    if "detail" in parts and room not in (other, "tests") and not invited:
        yield where + f"<{target}> is inside the wall of room {other}"


def check(root):
    found = []
    for name in checker.files(root, checker.CODE):
        if name.split("/")[0] in [*checker.ROOMS, "samples", "tests"]:
            found += offences_of(root, name, checker.read(root, name))
    return found


CLEAN = {
    "engine/api.h": "#pragma once\n#include <vector>\n",
    "engine/detail/x.h": "#pragma once\n",
    "engine/detail/engine_access.h": "#pragma once\n",
    "storage/a.cpp": "#include <sluice/engine/detail/engine_access.h>\n",
    "storage/api.h": "// #include <sluice/gluon/api.h>\n#include <sluice/engine/api.h>\n",
    "operator/add_cuda.cu": "#include <cuda_runtime.h>\n#include <sluice/storage/api.h>\n",
    "ndarray/half.h": "#ifdef __CUDACC__\n#include <cuda_fp16.h>\n#endif\n",
    "gluon/api.h": "#include <sluice/engine/api.h>\n",
    "tests/engine/test_x.cpp": "#include <sluice/engine/detail/x.h>\n",
}
PLANTS = [
    ("a room to the right", {"engine/a.cpp": "#include <sluice/storage/api.h>\n"}, "to its right"),
    ("a detail header of another room", {"gluon/a.cpp": "#include <sluice/engine/detail/x.h>\n"}, "inside the wall"),
    ("detail from a sample", {"samples/a.cpp": "#include <sluice/engine/detail/x.h>\n"}, "inside the wall"),
    ("an inner header with guests from a sample", {"samples/a.cpp": "#include <sluice/engine/detail/engine_access.h>\n"},
     "inside the wall"),
    ("a quoted include", {"engine/a.cpp": '  #  include "engine/api.h"\n'}, "is not written as"),
    ("a bare room path", {"samples/a.cpp": "#include <engine/api.h>\n"}, "must be written"),
    ("CUDA in a host header", {"operator/a.h": "#include <cuda_runtime.h>\n"}, "outside engine/cuda"),
    ("CUDA for the host's half", {"operator/a.h": "#ifdef __CUDACC__\n#else\n#include <cuda_fp16.h>\n#endif\n"}, "outside"),
    ("engine/cuda in a host file", {"operator/a.cpp": "#include <sluice/engine/cuda/handle.h>\n"}, "outside engine,"),
    ("an inner header without invitation", {"ndarray/detail/y.h": "", "gluon/a.cpp": "#include <sluice/ndarray/detail/y.h>\n"},
     "inside the wall"),
    ("Asio in another door", {"engine/b.h": "#include <boost/asio.hpp>\n"}, "outside engine/asio.h"),
    ("a header that is not there", {"gluon/a.cpp": "#include <sluice/engine/none.h>\n"}, "does not exist"),
    ("a room that is not there", {"gluon/a.cpp": "#include <sluice/attic/a.h>\n"}, "names no room"),
    ("the great door from the left", {"ndarray/a.cpp": "#include <sluice/sluice.h>\n"}, "gluon's door"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
