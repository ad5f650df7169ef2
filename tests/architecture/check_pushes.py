#!/usr/bin/env python3
"""Tasks on arrays are pushed in the places of ALLOWED and nowhere else: what writes an array is a call of `invoke`, which
checks it, shows it to sinks and runs it by one of the first five places. The others bring values in or hand them out.
"""
import re

import checker

# File, how many places push there, why not by `invoke`.
ALLOWED = {
    "operator/detail/kernel_task.cpp": (1, "invoke: any operator's kernel"),
    "operator/update/update.cpp": (1, "invoke: the kernel of updates, which writes any number of arrays"),
    "ndarray/copy.cpp": (6, "invoke: copies, casts and fills"),
    "operator/graph/host_run.cpp": (2, "a host plan: what a request brings, and what it gets"),
    "operator/graph/derived_values.cpp": (1, "writes nothing: shows that a kept value was made"),
    "operator/rtc/rtc.cpp": (1, "kernels of the user's"),
    "operator/push_task.cpp": (1, "tasks of the user's"),
    "ndarray/buffer.cpp": (1, "writes nothing: parts of an array come after the whole"),
    "ndarray/create.cpp": (1, "values of the program's own memory"),
    "ndarray/dlpack.cpp": (1, "writes nothing: memory is lent to another library, which may write it"),
    "ndarray/pipeline.cpp": (2, "values from and to the program's own memory, in slices"),
    "ndarray/small_read.cpp": (1, "values to the program's own memory"),
    "gluon/data/epoch.cpp": (2, "batches of a dataset"),
    "gluon/image/image.cpp": (1, "pixels of a file"),
    "gluon/image/gpu_decoding.cpp": (2, "pixels of a file, which CPU and GPU make one after the other"),
}

# Whatever is called an engine, by itself or as what a call returns.
PUSH = re.compile(r"\b(?:\w*[Ee]ngine\w*(?:\s*\(\s*\))?|current\s*\(\s*\)|on)\s*(?:\.|->)\s*push\s*\(")


def check(root):
    found = []
    for name in checker.files(root, checker.CODE):
        if name.split("/")[0] not in ("storage", "ndarray", "operator", "gluon"):
            continue
        code = checker.code_only(checker.read(root, name))
        lines = [code.count("\n", 0, match.start()) + 1 for match in PUSH.finditer(code)]
        most = ALLOWED.get(name, (0, ""))[0]
        for line in lines[most:]:
            found.append(f"{name}:{line}: a task beside `invoke`; allowed places stand in check_pushes.py")
    return found


CLEAN = {
    "operator/detail/kernel_task.cpp": "void f() { engine.push(task, body, site); }\n",
    "operator/a.cpp": "// engine.push(task, body)\nvoid f() { ready.push(node); values.push_back(engine); }\n",
    "engine/a.cpp": "void f() { engine.push(task, body); }\n",
}
PLANTS = [
    ("a task of an array's engine", {"operator/a.cpp": "\nvoid f() { x.engine().push(task, body); }\n"}, "a.cpp:2: a task"),
    ("a task of the thread's engine", {"gluon/a.cpp": "void f() { Engine::current().push(task, body); }\n"}, "a.cpp:1"),
    ("a task of an engine that is kept", {"gluon/a.h": "void f() { engine_->push (task, body); }\n"}, "a.h:1"),
    ("a second place where one is allowed",
     {"ndarray/create.cpp": "void f() { engine.push(a, b); }\nvoid g() { engine.push(a, b); }\n"}, "create.cpp:2"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
