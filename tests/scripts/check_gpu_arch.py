#!/usr/bin/env python3
"""ndarray/gpu_arch.py with toolkits and GPUs that are not here, by stand-ins for nvcc and nvidia-smi: check_gpu_arch.py ROOT."""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

CUDA_13 = [75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121]
CUDA_12_0 = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90]

# What it is, codes of the toolkit, lines of nvidia-smi (None = not there), option, CPU, architectures, PTX, words.
TABLE = [
    ("no GPU", CUDA_13, None, "auto", "x86_64", ["75", "80", "90", "100", "120"], 120, "no GPU here"),
    ("a driver without a GPU", CUDA_13, "No devices were found", "auto", "x86_64", ["75", "80", "90", "100", "120"], 120, "no GPU"),
    ("a server of another kind", CUDA_13, None, "all", "aarch64", ["75", "80", "90", "100", "110", "120"], 120, "generation"),
    ("an older toolkit", CUDA_12_0, None, "auto", "x86_64", ["75", "80", "90"], 90, "no GPU here"),
    ("one GPU", CUDA_13, "9.0", "auto", "x86_64", ["90"], 0, "of this machine"),
    ("two kinds of GPU", CUDA_13, "8.6\n9.0\n9.0", "auto", "x86_64", ["86", "90"], 0, "of this machine"),
    ("a minor that the toolkit lacks", CUDA_12_0, "8.8", "auto", "x86_64", ["87"], 0, "of this machine"),
    ("a GPU newer than the toolkit", CUDA_12_0, "12.0", "auto", "x86_64", [], 90, "of this machine"),
    ("an old GPU beside a new one", CUDA_13, "7.0\n9.0", "auto", "x86_64", ["90"], 0, "7.0 is too old"),
    ("an old GPU alone", CUDA_13, "7.0", "auto", "x86_64", ["75", "80", "90", "100", "120"], 120, "7.0 is too old"),
    ("all beside a GPU", CUDA_13, "9.0", "all", "x86_64", ["75", "80", "90", "100", "120"], 120, "each generation"),
    ("a list", CUDA_13, "9.0", "80, 90a", "x86_64", ["80", "90a"], 0, "gpu_arch says"),
    ("a list with PTX", CUDA_13, None, "80,90+ptx", "x86_64", ["80", "90"], 90, "PTX 90"),
    ("one too old for the toolkit", CUDA_13, None, "70", "x86_64", None, 0, "no 70; it builds for 75, 80"),
    ("no list at all", CUDA_13, None, "hopper", "x86_64", None, 0, "'hopper' is not one of"),
    ("an empty option", CUDA_13, None, "", "x86_64", None, 0, "'' is not one of"),
]


def put(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def run(root, folder, codes, smi, value, cpu, *quick):
    said = "\\n".join(f"sm_{code}" for code in codes)
    flags = "--compress-mode --Ofast-compile" if codes == CUDA_13 else "--compress-mode"
    put(folder / "nvcc", f'case "$1" in --list-gpu-code) printf "{said}\\n";; --help) echo "{flags}";; esac\n')
    if smi is not None:
        put(folder / "nvidia-smi", "printf '" + smi.replace("\n", "\\n") + "\\n'\n")
    return subprocess.run([sys.executable, str(root / "ndarray/gpu_arch.py"), str(folder / "nvcc"), value, cpu, *quick],
                          env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    for (what, codes, smi, value, cpu, names, ptx, words), quick in itertools.product(TABLE, ([], ["quick"])):
        with tempfile.TemporaryDirectory() as folder:
            done = run(root, pathlib.Path(folder), codes, smi, value, cpu, *quick)
        wanted = None
        if names is not None:
            flags = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in names]
            flags += [f"-gencode=arch=compute_{ptx},code=compute_{ptx}"] if ptx else []
            flags += [f"--compress-mode={'balance' if quick else 'size'}"] + (["--Ofast-compile=max"] if quick and codes == CUDA_13 else [])
            wanted = " ".join(flags) + f"\n{ptx}\n"
        good = done.returncode != 0 if wanted is None else done.returncode == 0 and done.stdout.startswith(wanted)
        own = " ".join(f"-gencode=arch=compute_{n}a,code=sm_{n}a" for n in names or [] if n == "90")
        good = good and (wanted is None or done.stdout.splitlines()[3] == own)
        if not good or words not in done.stdout + done.stderr:
            sys.exit(f"{what} {quick}: wanted {wanted} and '{words}', got {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"gpu_arch: {len(TABLE)} machines")


if __name__ == "__main__":
    main()
