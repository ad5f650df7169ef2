#!/usr/bin/env python3
"""Copies of the Var protocol with one fault each, for the checker to find: mutate.py SOURCE_ROOT OUTPUT.cpp.

Every copy gets a namespace of its own in one C++ file. A replacement that does not apply exactly once is listed there
too, and fails the test: the list below must follow the protocol.
"""
import pathlib
import re
import sys

PROTOCOL, LIFE, GATE = "engine/detail/var_protocol.h", "engine/detail/var_life.h", "engine/detail/read_gate.h"

# (what is wrong with it, file, line or lines, what stands there instead)
MUTATIONS = [
    # -- Entering --
    ("Vars are not locked together", PROTOCOL,
     "      if (!open)\n        accesses[i].var->lock.lock();\n    }\n    if (gates == 0) [[likely]]\n      return true;",
     "    }\n    if (gates == 0) {\n      accesses[0].var->lock.lock();\n      return true;\n    }"),
    ("Vars are locked against the order", PROTOCOL,
     "    for (int i = 0; i < count; ++i)\n      accesses[i].var->lock.lock();",
     "    for (int i = count; i-- > 0;)\n      accesses[i].var->lock.lock();"),
    ("a Var is given up before the others are entered", PROTOCOL,
     "      granted += append(host, accesses[i]) ? 1 : 0;\n    entered();\n    unlock(accesses, count);",
     "      granted += append(host, accesses[i]) ? 1 : 0, unlock(accesses + i, 1);\n    entered();", "equivalent"),
    ("every Var is entered alone", PROTOCOL,
     "    if (try_gates(host, accesses, count, shard)) {",
     "    if (count > 1) {\n      int granted = 0;\n      for (int i = 0; i < count; ++i)\n"
     "        granted += enter(host, accesses + i, 1, shard);\n      return granted;\n    }\n"
     "    if (try_gates(host, accesses, count, shard)) {"),
    ("gates of Vars to be written stay open while others are passed", PROTOCOL,
     "      if (accesses[i].exclusive())\n        shut_gate(accesses[i].var);",
     "      (void)i;"),
    ("a gate is passed without looking again", PROTOCOL,
     "      if (!accesses[passed].var->gate_open.load(std::memory_order_seq_cst))\n        break;",
     ""),
    ("the gate is looked at before it is entered", PROTOCOL,
     "      accesses[passed].var->gate->enter(shard);\n"
     "      if (!accesses[passed].var->gate_open.load(std::memory_order_seq_cst))\n        break;",
     "      const bool open = accesses[passed].var->gate_open.load(std::memory_order_seq_cst);\n"
     "      accesses[passed].var->gate->enter(shard);\n      if (!open)\n        break;"),
    ("a closed gate is not left again", PROTOCOL,
     "    for (int i = 0; i <= passed; ++i) {", "    for (int i = 0; i < passed; ++i) {"),
    ("who leaves a closed gate does not look for a waiting writer", PROTOCOL,
     "      if (accesses[i].gated())\n        leave_gate(host, accesses[i].var, shard);",
     "      (void)host;\n      if (accesses[i].gated())\n        accesses[i].var->gate->leave(shard);"),
    ("locks are kept while closed gates are left", PROTOCOL,
     "    unlock(accesses, count);\n    for (int i = 0; i <= passed; ++i) {\n      if (accesses[i].gated())\n"
     "        leave_gate(host, accesses[i].var, shard);\n    }\n",
     "    for (int i = 0; i <= passed; ++i) {\n      if (accesses[i].gated())\n"
     "        leave_gate(host, accesses[i].var, shard);\n    }\n    unlock(accesses, count);\n"),
    ("the marks of closed gates stay", PROTOCOL, "      accesses[i].set_gated(false);", "      (void)i;"),
    ("a writer joins readers", PROTOCOL,
     "(nobody_reads(var) || close(var))", "(close(var), true)"),
    ("a writer joins readers at the gate", PROTOCOL,
     "    return var->gate == nullptr && var->readers.load(", "    return var->readers.load("),
    ("a writer joins counted readers", PROTOCOL,
     "    return var->gate == nullptr && var->readers.load(std::memory_order_acquire) == 0;",
     "    return var->gate == nullptr;"),
    ("a writer only comes in when it has closed", PROTOCOL, "(nobody_reads(var) || close(var))", "close(var)",
     "equivalent"),
    ("a queued writer leaves the Var open to readers", PROTOCOL,
     "    var->mode.store(VarMode::reading_closed, std::memory_order_seq_cst);\n    return readers_gone(var);",
     "    return readers_gone(var);"),
    ("who closes looks for readers first", PROTOCOL,
     "    var->mode.store(VarMode::reading_closed, std::memory_order_seq_cst);\n    return readers_gone(var);",
     "    const bool gone = readers_gone(var);\n"
     "    var->mode.store(VarMode::reading_closed, std::memory_order_seq_cst);\n    return gone;"),
    ("the gate is left open for a writer", PROTOCOL,
     "    shut_gate(var);\n    // Closing", "    // Closing"),
    ("only counted readers are waited for", PROTOCOL, " && (var->gate == nullptr || var->gate->empty())", ""),
    ("only readers at the gate are waited for", PROTOCOL,
     "var->readers.load(std::memory_order_seq_cst) == 0 && (", "("),
    ("a writer let in at once is not marked", PROTOCOL,
     "        var->mode.store(VarMode::writing, std::memory_order_relaxed);\n        host.came_in(var, access);",
     "        host.came_in(var, access);"),
    ("readers join though somebody waits", PROTOCOL,
     "    } else if (mode == VarMode::idle || mode == VarMode::reading_open) {",
     "    } else if (mode != VarMode::writing) {"),
    ("a reader that joins is not counted", PROTOCOL,
     "        var->readers.fetch_add(1, std::memory_order_relaxed);", ""),
    ("the first reader does not mark the Var", PROTOCOL,
     "        var->mode.store(VarMode::reading_open, std::memory_order_relaxed);\n      }\n", "      }\n"),
    ("the count is set though readers may be inside", PROTOCOL,
     "mode == VarMode::idle || var->readers.load(std::memory_order_acquire) == 0) {",
     "mode == VarMode::idle || var->readers.load(std::memory_order_acquire) <= 1) {"),
    ("a queued node keeps its old successor", PROTOCOL, "    access.next = nullptr;\n", ""),
    ("the inbox forgets its end", PROTOCOL, "    var->inbox_tail = &access;\n", ""),
    # -- Reads that are tried --
    ("a tried read comes in whoever has the Var", PROTOCOL,
     "accesses[i].gated() || takes_readers(accesses[i].var);", "true;"),
    ("a tried read joins readers though somebody waits", PROTOCOL,
     "    return mode == VarMode::idle || mode == VarMode::reading_open;", "    return mode != VarMode::writing;"),
    ("tried reads look at one Var after the other", PROTOCOL,
     "    if (!try_gates(host, accesses, count, shard))\n      return false;\n    bool all = true;",
     "    bool all = true;\n    for (int i = 0; all && i < count && count > 1; ++i)\n"
     "      all = try_read(host, accesses + i, 1, shard);\n    if (count > 1)\n      return all;\n"
     "    if (!try_gates(host, accesses, count, shard))\n      return false;"),
    ("tried reads keep the gates that they have passed", PROTOCOL,
     "    for (int i = 0; !all && i < count; ++i) {", "    for (int i = 0; false;) {"),
    ("tried reads keep their locks", PROTOCOL, "    unlock(accesses, count);\n    for (int i = 0; !all", "    for (int i = 0; !all"),
    # -- Leaving --
    ("any reader that leaves claims", PROTOCOL,
     "fetch_sub(1, std::memory_order_seq_cst) == 1)", "fetch_sub(1, std::memory_order_seq_cst) >= 1)", "equivalent"),
    ("the last reader never claims", PROTOCOL,
     "fetch_sub(1, std::memory_order_seq_cst) == 1)", "fetch_sub(1, std::memory_order_seq_cst) == 0)"),
    ("readers are counted down in two steps", PROTOCOL,
     "      if (var->readers.fetch_sub(1, std::memory_order_seq_cst) == 1)\n        last_reader(host, var);",
     "      const int before = var->readers.load(std::memory_order_seq_cst);\n"
     "      var->readers.store(before - 1, std::memory_order_seq_cst);\n"
     "      if (before == 1)\n        last_reader(host, var);"),
    ("the last reader looks at the mode before it leaves", PROTOCOL,
     "      if (var->readers.fetch_sub(1, std::memory_order_seq_cst) == 1)\n        last_reader(host, var);",
     "      const bool waits = var->mode.load(std::memory_order_seq_cst) == VarMode::reading_closed;\n"
     "      if (var->readers.fetch_sub(1, std::memory_order_seq_cst) == 1 && waits)\n        last_reader(host, var);"),
    ("who leaves a gate does not look for a waiting writer", PROTOCOL,
     "    var->gate->leave(shard);\n    last_reader(host, var);", "    (void)host;\n    var->gate->leave(shard);"),
    ("the last reader does not look again under the lock at the mode", PROTOCOL,
     "    if (var->mode.load(std::memory_order_relaxed) == VarMode::reading_closed && readers_gone(var)) {",
     "    if (readers_gone(var)) {"),
    ("the last reader does not look again for readers", PROTOCOL,
     "VarMode::reading_closed && readers_gone(var)) {", "VarMode::reading_closed) {"),
    ("the last reader claims without the lock", PROTOCOL,
     "    var->lock.lock();\n    if (var->mode.load(std::memory_order_relaxed) == VarMode::reading_closed && readers_gone"
     "(var)) {\n      var->mode.store(VarMode::writing, std::memory_order_relaxed);\n      var->lock.unlock();\n"
     "      return advance(host, var);\n    }\n    var->lock.unlock();",
     "    if (var->mode.load(std::memory_order_relaxed) == VarMode::reading_closed && readers_gone(var)) {\n"
     "      var->mode.store(VarMode::writing, std::memory_order_relaxed);\n      return advance(host, var);\n    }\n"),
    ("the claim is not marked", PROTOCOL,
     "      var->mode.store(VarMode::writing, std::memory_order_relaxed);\n      var->lock.unlock();\n"
     "      return advance(host, var);",
     "      var->lock.unlock();\n      return advance(host, var);"),
    ("the last reader keeps the lock", PROTOCOL,
     "    var->lock.unlock();  // another last reader got here first, or a writer saw for itself", ""),
    # -- The right to advance --
    ("the inbox is taken without the lock", PROTOCOL,
     "        var->lock.lock();\n        var->run = take_inbox(var);\n        if (var->run == nullptr)\n"
     "          return host.idle(var);\n        var->lock.unlock();",
     "        var->run = take_inbox(var);\n        if (var->run == nullptr) {\n          var->lock.lock();\n"
     "          return host.idle(var);\n        }"),
    ("the Var goes idle by an old look at the inbox", PROTOCOL,
     "        if (var->run == nullptr)\n          return host.idle(var);\n        var->lock.unlock();",
     "        var->lock.unlock();\n        if (var->run == nullptr) {\n          var->lock.lock();\n"
     "          return host.idle(var);\n        }"),
    ("the inbox keeps its end when it is taken", PROTOCOL, "    var->inbox_tail = nullptr;\n", ""),
    ("the inbox keeps its head when it is taken", PROTOCOL,
     "    return std::exchange(var->inbox_head, nullptr);", "    return var->inbox_head;"),
    ("a granted writer stays at the head", PROTOCOL, "        var->run = head->next;\n", ""),
    ("a writer is granted before it is taken out", PROTOCOL,
     "        var->run = head->next;\n        host.came_next(var, *head);\n        return host.grant(*head);",
     "        host.came_next(var, *head);\n        host.grant(*head);\n        var->run = head->next;\n        return;"),
    ("whoever follows a writer is granted with it", PROTOCOL,
     "        return host.grant(*head);\n      }",
     "        Access* next = head->next;\n        host.grant(*head);\n        if (next != nullptr && !next->exclusive()) {\n"
     "          var->run = next->next;\n          host.grant(*next);\n        }\n        return;\n      }"),
    ("readers are granted past a writer", PROTOCOL,
     "    for (; last->next != nullptr && !last->next->exclusive(); last = last->next)",
     "    for (; last->next != nullptr; last = last->next)"),
    ("one reader too few is counted", PROTOCOL, "    int count = 1;\n    for (; last", "    int count = 0;\n    for (; last"),
    ("readers are counted after they were granted", PROTOCOL,
     "    var->readers.store(count, std::memory_order_relaxed);\n    var->reads", "    var->reads", "and",
     "      host.grant(*head);\n      head = next;\n    }",
     "      host.grant(*head);\n      head = next;\n    }\n    var->readers.store(count, std::memory_order_relaxed);"),
    ("what came meanwhile is not looked for", PROTOCOL,
     "    if (last->next == nullptr && var->inbox_head != nullptr) {", "    if (false) {"),
    ("readers are let in without the lock", PROTOCOL,
     "    var->lock.lock();\n    if (last->next == nullptr && var->inbox_head != nullptr) {\n"
     "      last->next = take_inbox(var);\n      var->lock.unlock();\n      return false;\n    }",
     "    if (last->next == nullptr && var->inbox_head != nullptr) {\n"
     "      last->next = take_inbox(var);\n      return false;\n    }", "and",
     "    if (open)\n      host.joined(var);\n    var->lock.unlock();\n    host.came", "    if (open)\n      host.joined(var);\n    host.came"),
    ("what waits behind readers is dropped", PROTOCOL,
     "    var->run = std::exchange(last->next, nullptr);", "    last->next = nullptr;\n    var->run = nullptr;"),
    ("the readers' list runs on into the writer behind them", PROTOCOL,
     "    var->run = std::exchange(last->next, nullptr);", "    var->run = last->next;"),
    ("readers leave the Var open though a writer waits", PROTOCOL,
     "const bool open = var->run == nullptr && !var->orphan;", "const bool open = !var->orphan;"),
    ("the last reader of an orphan does not see to it", PROTOCOL,
     "const bool open = var->run == nullptr && !var->orphan;", "const bool open = var->run == nullptr;"),
    ("the Var stays marked as written when readers are let in", PROTOCOL,
     "    var->mode.store(open ? VarMode::reading_open : VarMode::reading_closed, std::memory_order_relaxed);\n", ""),
    ("a node is used after it was granted", PROTOCOL,
     "      Access* next = head->next;  // a granted node may be gone at once\n      host.grant(*head);\n      head = next;",
     "      host.grant(*head);\n      head = head->next;"),
    ("the lock is given up before the mode is set", PROTOCOL,
     "    const bool open = var->run == nullptr && !var->orphan;",
     "    var->lock.unlock();\n    const bool open = var->run == nullptr && !var->orphan;", "and",
     "      host.joined(var);\n    var->lock.unlock();\n    host.came", "      host.joined(var);\n    host.came"),
    # -- A Var's life --
    ("the last handle goes without the lock", LIFE,
     "    while (handles > 1) {", "    while (handles >= 1) {"),
    ("handles are counted down in two steps", LIFE,
     "      if (var->handles.compare_exchange_weak(handles, handles - 1, std::memory_order_acq_rel))\n        return;",
     "      var->handles.store(handles - 1, std::memory_order_relaxed);\n      return;"),
    ("who was not the last retires all the same", LIFE,
     "    if (var->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) {",
     "    var->handles.fetch_sub(1, std::memory_order_acq_rel);\n    if (false) {", "equivalent"),
    ("a Var retires under its readers", LIFE,
     "(mode == VarMode::reading_open && Protocol::close(var))", "mode == VarMode::reading_open"),
    ("an open Var is not closed when its last handle goes", LIFE,
     "(mode == VarMode::reading_open && Protocol::close(var))",
     "(mode == VarMode::reading_open && Protocol::readers_gone(var))"),
    ("a retired Var keeps its mode", LIFE,
     "    if (last)\n      var->mode.store(VarMode::idle, std::memory_order_relaxed);\n    var->orphan = !last;",
     "    var->orphan = !last;"),
    ("a Var in use is forgotten with its last handle", LIFE, "    var->orphan = !last;\n", ""),
    ("a Var is orphaned after the lock was given up", LIFE,
     "    var->orphan = !last;\n    var->lock.unlock();", "    var->lock.unlock();\n    var->orphan = !last;"),
    ("an idle orphan does not retire", LIFE,
     "    var->lock.unlock();\n    if (last)\n      host.retire(var);\n  }\n\n  /// A read was",
     "    var->lock.unlock();\n  }\n\n  /// A read was"),
    ("an orphan stays one when its place is used again", LIFE,
     "    if (last)\n      var->orphan = false;\n", "", "equivalent"),
    ("a frozen Var opens under its last reader's claim", LIFE,
     "    if (!last && var->frozen", "    if (var->frozen"),
    ("a gate opens for readers of an orphan", LIFE,
     "    if (var->orphan || var->gate_open", "    if (var->gate_open", "equivalent"),
    ("a Var that is frozen in use opens for readers", LIFE,
     "    if (frozen && var->mode.load(std::memory_order_relaxed) == VarMode::reading_open)\n      open_gate",
     "    if (frozen)\n      open_gate"),
    ("a Var is frozen without the lock", LIFE,
     "    var->lock.lock();\n    var->frozen.store", "    var->frozen.store", "and",
     "      open_gate(host, var);\n    var->lock.unlock();\n  }\n\n private", "      open_gate(host, var);\n  }\n\n private"),
    ("a gate is opened before it is there", LIFE,
     "    if (var->gate == nullptr)\n      var->gate = host.new_gate();\n    if (var->gate != nullptr)\n"
     "      var->gate_open.store(true, std::memory_order_release);",
     "    var->gate_open.store(true, std::memory_order_release);\n    if (var->gate == nullptr)\n"
     "      var->gate = host.new_gate();"),
    ("a new gate for every opening", LIFE, "    if (var->gate == nullptr)\n      var->gate = host", "    var->gate = host"),
    # -- The gate --
    ("those who entered a gate are summed first", GATE,
     "    for (const Shard& shard : shards)\n      left += shard.left.load(std::memory_order_seq_cst);\n"
     "    for (const Shard& shard : shards)\n      entered += shard.entered.load(std::memory_order_seq_cst);",
     "    for (const Shard& shard : shards)\n      entered += shard.entered.load(std::memory_order_seq_cst);\n"
     "    for (const Shard& shard : shards)\n      left += shard.left.load(std::memory_order_seq_cst);"),
    ("a gate is summed place by place", GATE,
     "    for (const Shard& shard : shards)\n      left += shard.left.load(std::memory_order_seq_cst);\n"
     "    for (const Shard& shard : shards)\n      entered += shard.entered.load(std::memory_order_seq_cst);",
     "    for (const Shard& shard : shards) {\n      left += shard.left.load(std::memory_order_seq_cst);\n"
     "      entered += shard.entered.load(std::memory_order_seq_cst);\n    }", "equivalent"),
    ("one place of a gate is forgotten", GATE,
     "    for (const Shard& shard : shards)\n      entered +=", "    for (const Shard& shard : {shards[0]})\n      entered +="),
]

MODE = re.compile(r"/// How a Var stands.*?^};\n", re.DOTALL | re.MULTILINE)


def bare(text):
    """A header's code, to stand in any namespace."""
    text = MODE.sub("using sluice::detail::VarMode;\n", text)
    text = re.sub(r"^(#pragma once|#include .*|namespace sluice::detail \{|\}  // namespace sluice::detail)\n", "", text,
                  flags=re.MULTILINE)
    return text


def mutated(sources, mutation):
    """The three headers with the replacements made, and whether each applied once."""
    file, rest = mutation[1], list(mutation[2:])
    texts, good = dict(sources), True
    while rest and rest[0] != "equivalent":
        if rest[0] == "and":
            rest.pop(0)
            continue
        old, new = rest[:2]
        del rest[:2]
        good = good and texts[file].count(old) == 1
        texts[file] = texts[file].replace(old, new)
    return texts, good, bool(rest)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def main():
    root, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sources = {name: (root / name).read_text() for name in (PROTOCOL, LIFE, GATE)}
    parts, rows, unapplied = [], [], []
    for number, mutation in enumerate(MUTATIONS):
        texts, good, equivalent = mutated(sources, mutation)
        if not good:
            unapplied.append(mutation[0])
            continue
        space = f"mutant_{number}"
        parts.append(f"namespace sluice::model::{space} {{\n" + "".join(bare(texts[f]) for f in (GATE, PROTOCOL, LIFE)) +
                     "}\n")
        rows.append(f"  {{make_protocol<{space}::VarProtocol, {space}::VarLife, {space}::ReadGate<Atomic<std::uint64_t>, "
                    f"k_shards>>({quoted(mutation[0])}), {str(equivalent).lower()}}},\n")
    output.write_text(
        "// Made by tests/engine/model/mutate.py.\n#include <atomic>\n#include <cstdint>\n#include <mutex>\n#include <utility>\n"
        '\n#include "tests/engine/model/mutants.h"\n\n' + "".join(parts) +
        "namespace sluice::model {\nconst std::vector<Mutant>& mutants() {\n  static const std::vector<Mutant> all = {\n" +
        "".join(rows) + "  };\n  return all;\n}\nconst std::vector<std::string>& unapplied_mutations() {\n"
        "  static const std::vector<std::string> all = {" + ", ".join(map(quoted, unapplied)) +
        "};\n  return all;\n}\n}  // namespace sluice::model\n")


if __name__ == "__main__":
    main()
