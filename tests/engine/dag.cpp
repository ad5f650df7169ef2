#include "tests/engine/dag.h"

#include <algorithm>
#include <random>

namespace sluice::test {

Program random_program(std::uint64_t seed, std::size_t steps, std::uint32_t cells, int pushers) {
  std::mt19937_64 random(seed);
  Program program{.cells = cells, .pushers = pushers, .steps = std::vector<Step>(steps)};
  for (Step& step : program.steps) {
    const auto wanted = std::min<std::uint64_t>(1 + random() % 4, cells);
    while (step.count < wanted) {
      const auto cell = static_cast<std::uint32_t>(random() % cells);
      if (std::find(step.cell, step.cell + step.count, cell) != step.cell + step.count)
        continue;
      const std::uint64_t die = random() % 6;
      step.cell[step.count] = cell;
      step.touch[step.count++] = die < 3 ? Touch::read : die < 5 ? Touch::write : Touch::out;
    }
    step.repeat = step.touch[0] != Touch::out && random() % 16 == 0;
  }
  return program;
}

Program commuting_program(std::uint64_t seed, std::size_t steps, std::uint32_t cells, int pushers) {
  Program program = random_program(seed, steps, cells, pushers);
  std::mt19937_64 random(seed + 1);
  std::size_t left = 0, first = 0;
  for (Step& step : program.steps) {
    if (left-- == 0) {
      left = random() % 16;
      first = random() % cells;
    }
    for (int i = 0; i < step.count; ++i) {  // half of the cells, another half in each stretch
      if ((step.cell[i] + cells - first) % cells < cells / 2)
        step.touch[i] = Touch::commute;
    }
  }
  return program;
}

AccessList access_of(const Step& step, const std::vector<Var>& vars) {
  AccessList list;
  for (int i = 0; i < step.count; ++i) {
    const Var& var = vars[step.cell[i]];
    static constexpr Access (*k_access[])(const Var&) = {read, write, out, commute};
    list.push_back(k_access[static_cast<int>(step.touch[i])](var));
  }
  if (step.repeat)
    list.push_back(read(vars[step.cell[0]]));
  return list;
}

namespace {

std::string compare_cells(const std::vector<Cell>& expected, const std::vector<Cell>& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].value != got[i].value || expected[i].writers != got[i].writers)
      return message(
          "cell ",
          i,
          " ends with another value, or after ",
          got[i].writers,
          " writers instead of ",
          expected[i].writers);
  }
  return {};
}

std::string compare_task(const Program& program, std::size_t task, const Seen& expected, const Seen& got) {
  if (expected.digest != got.digest)
    return message("task ", task, " read other values than in a serial run");
  for (int i = 0; i < program.steps[task].count; ++i) {
    if (expected.writers[i] != got.writers[i])
      return message(
          "task ",
          task,
          " came after ",
          got.writers[i],
          " writers of cell ",
          program.steps[task].cell[i],
          " instead of ",
          expected.writers[i]);
  }
  return {};
}

/// Runs the steps one by one in `order` and compares each with what it saw.
std::string replay(const Program& program, const std::vector<std::uint32_t>& order, const History& history) {
  History serial(program);
  for (std::uint32_t task : order) {
    run_step(program.steps[task], task, serial.cells.data(), serial.seen[task]);
    if (std::string fault = compare_task(program, task, serial.seen[task], history.seen[task]); !fault.empty())
      return fault;
  }
  return compare_cells(serial.cells, history.cells);
}

/// Who wrote and who read one cell, by the number of writers before them.
struct CellLog {
  std::vector<std::int64_t> writer;                 // [s]: the task that was writer s
  std::vector<std::vector<std::uint32_t>> readers;  // [s]: tasks that read after s writers
};

std::string collect(const Program& program, const History& history, std::vector<CellLog>& logs) {
  for (std::uint32_t cell = 0; cell < program.cells; ++cell) {
    logs[cell].writer.assign(history.cells[cell].writers, -1);
    logs[cell].readers.resize(history.cells[cell].writers + 1);
  }
  for (std::uint32_t task = 0; task < program.steps.size(); ++task) {
    const Step& step = program.steps[task];
    for (int i = 0; i < step.count; ++i) {
      CellLog& log = logs[step.cell[i]];
      const std::uint64_t before = history.seen[task].writers[i];
      const bool reads = step.touch[i] == Touch::read;
      if (before >= log.writer.size() + (reads ? 1 : 0))
        return message("task ", task, " saw more writers of cell ", step.cell[i], " than there were");
      if (reads) {
        log.readers[before].push_back(task);
      } else if (log.writer[before] >= 0) {
        return message("tasks ", log.writer[before], " and ", task, " wrote cell ", step.cell[i], " at the same time");
      } else {
        log.writer[before] = task;
      }
    }
  }
  return {};
}

/// Each pusher's conflicting accesses to a cell happen in the order of its pushes.
std::string breaks_program_order(const Program& program, const History& history) {
  for (int pusher = 0; pusher < program.pushers; ++pusher) {
    std::vector<std::uint64_t> read_floor(program.cells, 0), write_floor(program.cells, 0);
    std::vector<std::uint64_t> run_floor(program.cells, 0);  // where a run that commutes begins
    std::vector<bool> in_run(program.cells, false);
    for (std::size_t task = program.begin_of(pusher); task < program.begin_of(pusher + 1); ++task) {
      const Step& step = program.steps[task];
      for (int i = 0; i < step.count; ++i) {
        const std::uint32_t cell = step.cell[i];
        const std::uint64_t at = history.seen[task].writers[i];
        const bool reads = step.touch[i] == Touch::read;
        const bool commutes = step.touch[i] == Touch::commute && !(step.repeat && i == 0);  // also read, it is a write
        if (commutes && !in_run[cell])
          run_floor[cell] = write_floor[cell];
        in_run[cell] = commutes;
        if (at < (commutes ? run_floor : reads ? read_floor : write_floor)[cell])
          return message("task ", task, " overtook an earlier task of its pusher on cell ", cell);
        write_floor[cell] = std::max(write_floor[cell], reads ? at : at + 1);
        if (!reads)
          read_floor[cell] = std::max(read_floor[cell], at + 1);
      }
    }
  }
  return {};
}

/// An order of all tasks that agrees with the order seen on each cell (Kahn's algorithm); shorter if there is none.
std::vector<std::uint32_t> some_order(const Program& program, const std::vector<CellLog>& logs) {
  std::vector<std::vector<std::uint32_t>> next(program.steps.size());
  std::vector<std::uint32_t> before(program.steps.size(), 0);
  auto edge = [&](std::int64_t from, std::int64_t to) {
    next[from].push_back(static_cast<std::uint32_t>(to));
    ++before[to];
  };
  for (const CellLog& log : logs) {
    for (std::size_t s = 0; s < log.readers.size(); ++s) {
      for (std::uint32_t reader : log.readers[s]) {
        if (s > 0)
          edge(log.writer[s - 1], reader);
        if (s < log.writer.size())
          edge(reader, log.writer[s]);
      }
      if (s > 0 && s < log.writer.size())
        edge(log.writer[s - 1], log.writer[s]);
    }
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t task = 0; task < before.size(); ++task) {
    if (before[task] == 0)
      order.push_back(task);
  }
  for (std::size_t done = 0; done < order.size(); ++done) {
    for (std::uint32_t task : next[order[done]]) {
      if (--before[task] == 0)
        order.push_back(task);
    }
  }
  return order;
}

}  // namespace

std::string differs_from_serial(const Program& program, const History& history) {
  std::vector<std::uint32_t> order(program.steps.size());
  for (std::uint32_t task = 0; task < order.size(); ++task)
    order[task] = task;
  return replay(program, order, history);
}

std::string not_serialisable(const Program& program, const History& history) {
  std::vector<CellLog> logs(program.cells);
  if (std::string fault = collect(program, history, logs); !fault.empty())
    return fault;
  for (std::uint32_t cell = 0; cell < program.cells; ++cell) {
    for (std::int64_t writer : logs[cell].writer) {
      if (writer < 0)
        return message("cell ", cell, " was written by fewer tasks than it counts");
    }
  }
  if (std::string fault = breaks_program_order(program, history); !fault.empty())
    return fault;
  const std::vector<std::uint32_t> order = some_order(program, logs);
  if (order.size() != program.steps.size())
    return message("the cells disagree about the order of ", program.steps.size() - order.size(), " tasks");
  return replay(program, order, history);
}

}  // namespace sluice::test
