#!/usr/bin/env python3
"""Copies of the engine's headers with one memory order weakened, or one fault, each: weaken.py SOURCE_ROOT OUTPUT.h.

Each becomes a kit like AsItIs in kits.h, and the test that must fail with it.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import mutate  # noqa: E402

RING, COMMUTE, LOCK = "engine/detail/ring.h", "engine/detail/commute_protocol.h", "engine/detail/spin_lock.h"
P, L, G, R, C, S = mutate.PROTOCOL, mutate.LIFE, mutate.GATE, RING, COMMUTE, LOCK
M = "engine/detail/read_marks.h"

# (name, file, old, new, suite that must find it). Two orders of the ring are not here: that a claim releases and that
# the owner acquires it before it uses a slot again. Together they keep the taker's read of the slot before the owner's
# next write; weakened, the read would have to see a later write, and Relacy's loads never do.
WEAKENED = [
    ("a reader leaves by acq_rel", P, "readers.fetch_sub(1, std::memory_order_seq_cst)",
     "readers.fetch_sub(1, std::memory_order_acq_rel)", "Var:k_readers_and_writer"),
    ("a reader leaves without release", P, "readers.fetch_sub(1, std::memory_order_seq_cst)",
     "readers.fetch_sub(1, std::memory_order_relaxed)", "Var:k_readers_and_writer"),
    ("who has left looks at the mode by acquire", P, "if (var->mode.load(std::memory_order_seq_cst) !=",
     "if (var->mode.load(std::memory_order_acquire) !=", "Var:k_readers_and_writer"),
    ("closing by release", P, "var->mode.store(VarMode::reading_closed, std::memory_order_seq_cst);",
     "var->mode.store(VarMode::reading_closed, std::memory_order_release);", "Var:k_readers_and_writer"),
    ("readers are counted by acquire", P, "var->readers.load(std::memory_order_seq_cst) == 0 &&",
     "var->readers.load(std::memory_order_acquire) == 0 &&", "Var:k_readers_and_writer"),
    ("a reader that finds none counts anew without acquire", P, "var->readers.load(std::memory_order_acquire) == 0)",
     "var->readers.load(std::memory_order_relaxed) == 0)", "Var:k_reader_after_reader"),
    ("a writer sees no reader without acquire", P, "var->readers.load(std::memory_order_acquire) == 0;",
     "var->readers.load(std::memory_order_relaxed) == 0;", "Var:k_readers_and_writer"),
    ("the gate is looked at by acquire", P, "gate_open.load(std::memory_order_seq_cst)",
     "gate_open.load(std::memory_order_acquire)", "Var:k_gated"),
    ("the gate closes by release", P, "gate_open.store(false, std::memory_order_seq_cst)",
     "gate_open.store(false, std::memory_order_release)", "Var:k_crossing"),
    ("an open gate is seen without acquire", P, "gate_open.load(std::memory_order_acquire)",
     "gate_open.load(std::memory_order_relaxed)", "Var:k_gated"),
    ("the gate opens without release", L, "gate_open.store(true, std::memory_order_release)",
     "gate_open.store(true, std::memory_order_relaxed)", "Var:k_gated"),
    ("a reader enters the gate by acq_rel", G, "entered.fetch_add(1, std::memory_order_seq_cst)",
     "entered.fetch_add(1, std::memory_order_acq_rel)", "Var:k_gated"),
    ("a reader leaves the gate without release", G, "left.fetch_add(1, std::memory_order_seq_cst)",
     "left.fetch_add(1, std::memory_order_relaxed)", "Var:k_gated"),
    ("a reader leaves the gate by acq_rel", G, "left.fetch_add(1, std::memory_order_seq_cst)",
     "left.fetch_add(1, std::memory_order_acq_rel)", "Var:k_gated"),
    ("who entered is summed by acquire", G, "shard.entered.load(std::memory_order_seq_cst)",
     "shard.entered.load(std::memory_order_acquire)", "Var:k_gated"),
    ("a task is put into the ring without release", R, "tail_.store(tail + 1, std::memory_order_release)",
     "tail_.store(tail + 1, std::memory_order_relaxed)", "Ring"),
    ("the ring's end is read without acquire", R,
     "const std::uint64_t tail = tail_.load(std::memory_order_acquire);\n      if (head >= tail)",
     "const std::uint64_t tail = tail_.load(std::memory_order_relaxed);\n      if (head >= tail)", "Ring"),
    ("a lock is taken without acquire", S,
     "for (int looks = 0; locked_.exchange(true, std::memory_order_acquire);)",
     "for (int looks = 0; locked_.exchange(true, std::memory_order_relaxed);)", "Depot"),
    ("a lock is given up without release", S, "locked_.store(false, std::memory_order_release)",
     "locked_.store(false, std::memory_order_relaxed)", "Depot"),
    ("a mark is taken by acq_rel", M,
     "compare_exchange_weak(now, what, std::memory_order_seq_cst,",
     "compare_exchange_weak(now, what, std::memory_order_acq_rel,", "Published"),
    ("a mark is changed by release", M, "mark.what.store(seen, std::memory_order_seq_cst)",
     "mark.what.store(seen, std::memory_order_release)", "Published"),
    ("a reader looks again by acquire", M, "again = current_.load(std::memory_order_seq_cst)",
     "again = current_.load(std::memory_order_acquire)", "Published"),
    ("a reader does not look again", M, "if (again == seen)", "if (again != nullptr)", "Published"),
    ("what is read is exchanged by acq_rel", M, "current_.exchange(next, std::memory_order_seq_cst)",
     "current_.exchange(next, std::memory_order_acq_rel)", "Published"),
    ("marks are looked at by acquire", M, "mark.what.load(std::memory_order_seq_cst) == what",
     "mark.what.load(std::memory_order_acquire) == what", "Published"),
    ("a reader leaves without release of its mark", M, "what.store(nullptr, std::memory_order_release)",
     "what.store(nullptr, std::memory_order_relaxed)", "Published"),
    ("a mark is taken though it is another's", M, "now == nullptr;) {", "now != what;) {", "Published"),
    ("more marks are added by acq_rel", M, "compare_exchange_weak(there, made, std::memory_order_seq_cst,",
     "compare_exchange_weak(there, made, std::memory_order_acq_rel,", "Published"),
    ("the writer looks for more marks by acquire", M, "some->more_.load(std::memory_order_seq_cst)",
     "some->more_.load(std::memory_order_acquire)", "Published"),
    # Commuting accesses know locks only: these are faults of another kind.
    ("a run is joined though something stands behind it", C,
     "if (run == nullptr || !nothing_behind(var, run->access)) {", "if (run == nullptr) {", "Commute:k_behind"),
    ("an inbox that the run has left is not looked at", C,
     " && (var->inbox_head == nullptr || var->inbox_tail == writer);", ";", "Commute:k_behind"),
    ("a run opens without its lock", C,
     "    var->lock.lock();\n    run.granted = true;\n    Access* access = run.first_told;\n    run.first_told = nullptr;\n"
     "    var->lock.unlock();\n",
     "    (void)var;\n    run.granted = true;\n    Access* access = run.first_told;\n    run.first_told = nullptr;\n",
     "Commute:k_opening"),
    ("turns are taken without looking", C, "while (busy < set.count && is_free(set.members[busy], set))",
     "while (busy < set.count)", "Commute:k_one_var"),
    ("who keeps turns keeps later ones too", C,
     "      else\n        give_back(set.members[i], set);", "      else if (!keeps)\n        give_back(set.members[i], set);",
     "Commute:k_passing"),
    ("who cannot have all turns keeps what it was given", C,
     "      else\n        give_back(set.members[i], set);", "", "Commute:k_passing"),
    ("who leaves lets nobody in", C, "Member* next = run->holder == nullptr ? most_urgent(*run) : nullptr",
     "Member* next = nullptr", "Commute:k_one_var"),
    ("who leaves asks one alone", C, "      if (!all)\n        continue;", "      if (!all)\n        break;",
     "Commute:k_passing"),
    ("a run counts who leaves it first", C,
     "    run->holder = nullptr;\n    // Counted", "    run->holder = nullptr;\n    run->left = run->left - 1;\n    // Counted",
     "Commute:k_two_vars"),
    ("a run that is over can be joined", C, "    if (over && var->commuting == run)\n      var->commuting = nullptr;\n",
     "", "Commute:k_runs"),
]

KIT = """struct Kit {
  template <class H, class V, class A>
  using Protocol = VarProtocol<H, V, A>;
  template <class H, class V, class A>
  using Life = VarLife<H, V, A>;
  template <class H, class V, class A, class S, class M, class R>
  using Commute = CommuteProtocol<H, V, A, S, M, R>;
  template <class W, unsigned S>
  using Gate = ReadGate<W, S>;
  template <class T, std::uint64_t S, template <class> class A>
  using Ring = BasicRing<T, S, A>;
  template <template <class> class A, class R>
  using Lock = BasicSpinLock<A, R>;
  template <template <class> class A, std::size_t N>
  using Marks = BasicReadMarks<A, N>;
  template <class T, template <class> class A>
  using Pointer = BasicMarkedPointer<T, A>;
};
"""


def named_whole(code):
    """Relacy's macros stand over the short names of memory orders."""
    return re.sub(r"std::memory_order_(\w+)", r"std::memory_order::\1", code)


def main():
    root, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sources = {name: (root / name).read_text() for name in (P, L, G, R, C, S, M)}
    parts, rows, unapplied = [], [], []
    for number, (name, file, old, new, suite) in enumerate(WEAKENED):
        texts, good, _ = mutate.mutated(sources, (name, file, old, new))
        if not good:
            unapplied.append(name)
            continue
        space = f"weakened_{number}"
        code = "".join(named_whole(mutate.bare(texts[f])) for f in (G, P, L, R, C, S, M))
        parts.append(f"namespace sluice::weak::{space} {{\n{code}{KIT}}}\n")
        kind, _, script = suite.partition(":")
        made = {"Var": f"VarSuite<{space}::Kit, {script}>", "Ring": f"RingSuite<{space}::Kit>",
                "Depot": f"DepotSuite<{space}::Kit, DepotFault::none>",
                "Published": f"PublishedSuite<{space}::Kit, PublishedFault::none>",
                "Commute": f"commuting::Suite<{space}::Kit, commuting::{script}>"}[kind]
        rows.append(f"  run({mutate.quoted(name)}, explore<{made}>); \\\n")
    output.write_text("// Made by tests/engine/model/weak/weaken.py.\n#pragma once\n#include <algorithm>\n#include <array>\n" +
                      "".join(parts) + "#define SLUICE_FOR_ALL_WEAKENED(run) \\\n" + "".join(rows) +
                      "  static_cast<void>(0)\n#define SLUICE_UNAPPLIED_WEAKENINGS {" +
                      ", ".join(map(mutate.quoted, unapplied)) + "}\n")


if __name__ == "__main__":
    main()
