#!/usr/bin/env python3
"""Which GPUs the device code is built for: gpu_arch.py NVCC VALUE CPU_FAMILY [quick].

Prints four lines: nvcc's flags, the capability whose PTX is built in too (0 = none), a sentence about the choice, and the
flags for what these GPUs alone have, for files with kernels of their own for them.
VALUE is the option gpu_arch:
  auto     the GPUs of this machine; without one as `all`
  all      one architecture of each generation that the toolkit builds for, and PTX of the newest for those to come
  80,90    these; `90+ptx` adds the PTX
`quick` asks for code that compiles fast and runs slowly, where the toolkit knows how.
"""
import re
import subprocess
import sys

OLDEST = 75  # of CUDA 13 and of the cuDNN that goes with it
OF_ITS_OWN = ["90"]  # capabilities with instructions that later ones do not have, which the library has kernels for


def output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def gpus_here():
    """Capabilities such as 90, as the driver's tool names them; nothing where it is not there."""
    said = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    return sorted({int(major + minor) for major, minor in re.findall(r"^\s*(\d+)\.(\d)\s*$", said, re.MULTILINE)})


def each_generation(known, cpu_family):
    """The first of each major version: its code runs on the later minors too. Generation 11 has no GPU for x86."""
    chosen = {}
    for capability in sorted(known):
        if capability >= OLDEST and not (capability // 10 == 11 and cpu_family == "x86_64"):
            chosen.setdefault(capability // 10, capability)
    return sorted(chosen.values())


def for_these(gpus, known):
    """(capabilities to build, PTX, GPUs that are too old) for `gpus`: the same, or the nearest before in a generation."""
    build, ptx, too_old = set(), 0, []
    for gpu in gpus:
        nearest = [k for k in known if k // 10 == gpu // 10 and k <= gpu]
        if nearest:
            build.add(max(nearest))
        elif gpu > max(known):
            ptx = max(known)
        else:
            too_old.append(gpu)
    return sorted(build), ptx, too_old


def listed(value, known):
    """(names such as 90 or 90a, PTX) of a list that somebody wrote."""
    names, ptx = [], 0
    for item in value.split(","):
        match = re.fullmatch(r"(\d+)([af]?)(\+ptx)?", item.strip())
        if match is None:
            sys.exit(f"gpu_arch: '{item.strip()}' is not one of auto, all, or a list such as 80,90 or 80,90+ptx")
        if int(match.group(1)) not in known:
            sys.exit(f"gpu_arch: this toolkit has no {item.strip()}; it builds for {', '.join(map(str, sorted(known)))}")
        names.append(match.group(1) + match.group(2))
        ptx = int(match.group(1)) if match.group(3) else ptx
    return names, ptx


def choose(value, known, gpus, cpu_family):
    """(names, PTX, sentence)."""
    if value not in ("auto", "all"):
        return *listed(value, known), "as gpu_arch says"
    reason = "one of each generation"
    if value == "auto":
        build, ptx, too_old = for_these(gpus, known)
        note = "".join(f"; {gpu / 10} is too old for this toolkit" for gpu in too_old)
        if build or ptx:
            return [*map(str, build)], ptx, "the GPUs of this machine" + note
        reason += ": no GPU here" if not gpus else note
    build = each_generation(known, cpu_family)
    return [*map(str, build)], build[-1], reason


def main():
    nvcc, value, cpu_family, *quick = sys.argv[1:]
    known = [int(digits) for digits in re.findall(r"^sm_(\d+)$", output(nvcc, "--list-gpu-code"), re.MULTILINE)]
    if not known:
        sys.exit(f"gpu_arch: '{nvcc} --list-gpu-code' names nothing")
    names, ptx, sentence = choose(value, known, gpus_here() if value == "auto" else [], cpu_family)
    flags = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in names]
    if ptx:
        flags.append(f"-gencode=arch=compute_{ptx},code=compute_{ptx}")
    # Several times smaller, and the driver unpacks only what it loads.
    known_flags = output(nvcc, "--help")
    mode = "balance" if quick else "size"  # the smallest takes as long as an eighth of quick compilation
    flags.append(f"--compress-mode={mode}" if "compress-mode" in known_flags else "-Xfatbin=-compress-all")
    if quick and "--Ofast-compile" in known_flags:
        flags.append("--Ofast-compile=max")
    print(" ".join(flags))
    print(ptx)
    print(", ".join(names) + (f", PTX {ptx}" if ptx else "") + f" ({sentence})")
    print(" ".join(f"-gencode=arch=compute_{name}a,code=sm_{name}a" for name in names if name in OF_ITS_OWN))


if __name__ == "__main__":
    main()
