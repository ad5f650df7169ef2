// Tasks that users build, keep and hand on, compiled optimised as theirs are: what a compiler thinks of how the lists
// in a Task are moved shows there only.
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/api.h>

using namespace sluice;

struct Pusher {
  Engine& engine;
  Var common;
  bool together;

  template <class Body>
  void operator()(AccessList access, Body body) const {
    if (together)
      access.push_back(write(common));
    engine.push({.name = "one of many", .access = std::move(access)}, std::move(body));
  }
};

Task renamed(Task task, const std::string& name) {
  task.name = name;
  Task moved = std::move(task);
  moved.access.push_back(moved.access[0]);
  return moved;
}

void push_all(const Pusher& pusher, const std::vector<Var>& vars) {
  std::vector<Access> many;
  for (const Var& var : vars)
    many.push_back(read(var));
  const std::array<Access, 2> two{read(vars[0]), out(vars[1])};
  pusher({read(vars[0])}, [] {});
  pusher(many, [](Queue) {});
  pusher(two, [] {});
  pusher(std::span<const Access>(many).first(1), [] {});
  AccessList list{write(vars[0])};
  for (const Var& var : vars)
    list.push_back(read(var));
  pusher(std::move(list), [] {});
  list = AccessList(many);
  pusher(std::move(list), [] {});
  Task task{.name = std::string("of many"), .access = many};
  Task moved = std::move(task);
  moved.access.push_back(many[0]);
  std::vector<Task> tasks;
  tasks.push_back(std::move(moved));
  tasks.emplace_back(Task{.name = "y", .access = {read(vars[0])}});
  tasks.push_back(renamed({.name = "kept", .access = {write(vars[0])}}, "renamed"));
  tasks.push_back(std::move(tasks[0]));
  for (Task& task : tasks)
    pusher.engine.push(std::move(task), [] {});
}

void push_few(const Pusher& pusher, const Var& var, const std::vector<Var>& vars) {
  pusher({read(var)}, [] {});
  AccessList list{read(var)};
  for (const Var& each : vars)
    list.push_back(write(each));
  pusher(std::move(list), [] {});
}

void keep_few(const Var& var) {
  std::vector<Task> tasks;
  tasks.push_back({.access = {read(var)}});
  tasks.push_back(std::move(tasks[0]));
}
