#!/usr/bin/env python3
"""Makes operators.md, the page of all operators, of what the registry says and of operator_names.txt.

make_operators.py TEST_OPERATOR ROOT checks that ROOT/docs/operators.md is what would be written; with --write it writes it.
TEST_OPERATOR is the program of the operators' tests, which knows by its cases what types they take.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HEAD = """# Operators

Every operator of the registry (`sluice::operators()`), by family, with its name in NumPy, PyTorch and MXNet. Made by
`docs/make_operators.py`; a test keeps it current.

- *Inputs* is how many arrays it takes, * for any number; then its attributes, as `find_operator()`, graph files and other
  languages give them, with their defaults. In C++ it is a function of the same name whose declaration says shapes and errors.
- *Types* are those of the first input that the tests' examples run with, promoted ones too: `all` nine, `floating` (float16,
  bfloat16, float32, float64), `numbers` (all but bool), `integers` (uint8, int8, int32, int64). All run on CPUs and on GPUs, but
  where it says other.
- int16, uint16, uint32 and uint64, which the lists leave out, go wherever integers do: numbers are reckoned with in int64 and
  wrap around in the type that comes out; `gcd`, `lcm` refuse uint64. Sums of uint64 are uint64, of other integers int64.
- By name some are found by NumPy's other names too: `absolute` (`abs`), `amax` (`max`), `amin` (`min`), `concatenate` (`concat`),
  `deg2rad` (`radians`), `fix` (`trunc`), `invert` (`bitwise_not`), `rad2deg` (`degrees`), `remainder` (`mod`), `rint` (`round`),
  `std` (`standard_deviation`), `true_divide` (`divide`), `var` (`variance`).
- What gives as many entries as values say has no inference and is a function alone: `nonzero`, `argwhere`, `flatnonzero`,
  `boolean_mask`, `unique`, `unique_all`. So are short forms of the operators here: `ravel`, `atleast_1d` to `atleast_3d`,
  `broadcast_arrays`, `fliplr`, `flipud`, `hstack`, `vstack`, `dstack`, `column_stack`, `array_split`, `ediff1d`, `vander`,
  `zeros_like` and its kin, `random::shuffle`.
- *Gradient*: of its own, by its parts for what is made of other operators and for views, or none.
"""
INTERNAL = "The library's own"
FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int32", "int64"]
NAMED_SETS = {
    "all": ["bool"] + INTEGERS + FLOATING,
    "numbers": INTEGERS + FLOATING,
    "floating": FLOATING,
    "integers": INTEGERS,
    "integers and bool": ["bool"] + INTEGERS,
}
GRADIENTS = {"yes": "its own", "parts": "by its parts", "no": ""}


def read_names(path):
    """Families in order, each a list of (operator, other names)."""
    families = []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            families.append((line.strip("[]"), []))
        elif line and not line.startswith("#"):
            op, *others = (part.strip() for part in line.split("|"))
            families[-1][1].append((op, [op if other == "=" else other for other in others]))
    return families


def read_facts(program):
    """What the program knows of each operator, by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "facts"
        subprocess.run([program, "[.operator_facts]"], env={**os.environ, "SLUICE_OPERATOR_FACTS": str(path)},
                       check=True, stdout=subprocess.DEVNULL)
        rows = (line.split("\t") for line in path.read_text().splitlines())
        return {row[0]: row[1:] for row in rows}


def types_text(types):
    taken = types.split()
    for name, members in NAMED_SETS.items():
        if set(members) == set(taken):
            return name
    return ", ".join(taken)


def code(text):
    return f"`{text}`" if text else ""


def row_of(op, others, facts):
    inputs, _, attributes, types, devices, gradient = facts
    where = "" if devices == "CPU GPU" else f"; on a {devices} alone"
    cells = [code(op), "*" if inputs == "-1" else inputs, code(attributes), types_text(types) + where, GRADIENTS[gradient]]
    cells += ["" if other == "-" else code(other) for other in others]
    return "| " + " | ".join(cells) + " |"


def page(families, facts):
    text = HEAD
    for family, rows in families:
        own = family == INTERNAL
        text += f"\n## {family}\n\n"
        if own:
            text += "Made by passes over graphs, as gradients, or by the functions above; not for programs.\n\n"
            rows = rows + [(op, []) for op in sorted(facts) if op not in {known for _, all in families for known, _ in all}]
        titles = ["Operator", "Inputs", "Attributes", "Types", "Gradient"] + ([] if own else ["NumPy", "PyTorch", "MXNet"])
        text += "| " + " | ".join(titles) + " |\n| " + " | ".join(["---"] * len(titles)) + " |\n"
        text += "".join(row_of(op, others, facts[op]) + "\n" for op, others in rows)
    return text


def problems(families, facts):
    """What operator_names.txt lacks or says too much of."""
    named = [op for _, rows in families for op, _ in rows]
    found = [f"operator_names.txt: {op} is no operator" for op in named if op not in facts]
    found += [f"operator_names.txt: {op} stands twice" for op in sorted(set(named)) if named.count(op) > 1]
    found += [f"operator_names.txt: {op} needs a line: its family and its names elsewhere"
              for op in sorted(facts) if op not in named and "_backward" not in op]
    found += [f"operator_names.txt: {op} needs three other names" for family, rows in families if family != INTERNAL
              for op, others in rows if len(others) != 3]
    return found


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    program, root = arguments[0], pathlib.Path(arguments[1])
    families, facts = read_names(root / "docs/operator_names.txt"), read_facts(program)
    if found := problems(families, facts):
        sys.exit("\n".join(found))
    text, path = page(families, facts), root / "docs/operators.md"
    if "--write" in sys.argv:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit("docs/operators.md is not what the registry says: ninja operators-page writes it")
    print("test cases: 1 passed, 0 failed, 0 skipped")  # as programs of test cases say


if __name__ == "__main__":
    main()
