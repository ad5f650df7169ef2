#!/usr/bin/env python3
"""The host blocks in the places of ALLOWED and nowhere else in the rooms (samples and tests may wait as users do).

What counts as blocking: CUDA's synchronising calls, waits on condition variables, latches, barriers, futures and
atomics, sleeps and joins. `queue.wait_for(positions)` and the same of a stream
make a stream wait, not the host. A mutex held over a few instructions does not.
"""
import fnmatch
import re

import checker

# File pattern, what it may call, why.
ALLOWED = [
    ("engine/wait.cpp", "wait wait_for", "Engine::wait, wait_all, TaskHandle::wait and the drain before an engine ends"),
    ("engine/engine.cpp", "wait", "Engine::wait hands over to wait.cpp"),
    ("engine/policy_pool.cpp", "wait wait_for join", "idle workers; a team's thread until workers rest; parallel_for's end"),
    ("engine/policy_executor.cpp", "wait wait_for", "waits asked for on the application's threads; parallel_for's end; stop"),
    ("engine/pool_worker.cpp", "wait wait_for", "idle workers, one of which looks every millisecond"),
    ("engine/back_pressure.cpp", "wait_for", "back-pressure on pushes from outside, limited in time"),
    ("engine/stop.cpp", "wait_for", "running out of memory, and the drain at exit, both limited in time"),
    ("engine/task_group.cpp", "wait", "TaskGroup::wait, which wait.cpp does"),
    ("engine/run.cpp", "wait", "the serial policy of GPUs, which is asked to wait for each task"),
    ("engine/team.cpp", "wait join", "the thread of library teams, idle or taking its next job"),
    ("engine/cuda/background_poller.cpp", "wait wait_until sleep_for join",
     "the thread that looks after CPU tasks behind GPU work and late batches; whoever ends the process waits until it sleeps"),
    ("engine/cuda/cuda_stream.cpp", "cudaStreamSynchronize", "where no event can be recorded: the only order left"),
    ("engine/cuda/body_calls.cpp", "wait_for", "a CUDA stream waits, not the host"),
    ("engine/cuda/logical_stream.cpp", "wait_for", "a CUDA stream waits, not the host"),
    ("engine/cuda/portable_memory.h", "cudaFreeHost", "error words, slots and pinned memory go back: trimming, exhaustion, the end"),
    ("engine/cuda/region_graph.cpp", "cudaStreamSynchronize", "which side of a branch runs, where CUDA does not take the graph"),
    ("engine/cuda/region_launch.cpp", "cudaStreamSynchronize", "a launch of the caller's own that takes longer than it spins"),
    ("engine/cuda/stream_slots.cpp", "wait_for", "a CUDA stream waits, not the host"),
    ("engine/cuda/policy_stream.cpp", "sleep_until", "waits that wait.cpp asked for, and gpu_check = each"),
    ("engine/interop.cpp", "cudaEventSynchronize wait_for", "an import whose stream cannot be made to wait"),
    ("engine/cuda/sleepers.*", "cudaEventSynchronize sleep_until", "waits that wait.cpp asked for"),
    ("gluon/data/epoch.cpp", "wait wait_for", "who comes to a batch that batchify makes, and who drops one that has just failed, for its task's end; with a timeout who comes to any batch"),
    ("gluon/server.cpp", "wait join", "Server's constructor, which tries the network, and its end"),
    ("gluon/server_queue.cpp", "wait wait_until", "the server's own threads without a batch; who hands in while the queue is full, if asked to wait"),
    ("gluon/server_reply.cpp", "wait", "ServerReply::wait and what waits for the answer"),
    ("ndarray/dlpack.cpp", "wait", "to_dlpack of a CPU's array: the consumer is no task that could wait"),
    ("ndarray/pipeline.cpp", "wait", "read_out of a large GPU array"),
    ("ndarray/small_read.cpp", "wait", "read_out of a small GPU array: past the flag that the host spins on"),
    ("ndarray/ndarray.cpp", "wait", "wait_to_read, wait_to_write, read_out"),
    ("operator/graph/host_run.cpp", "wait sleep_for", "the one run in which a host plan is captured; a launch that runs on while calls fail"),
    ("operator/library/team.cpp", "pause join", "a thread that only keeps OpenMP's own threads from spinning; threads that were started to see whether there are any"),
    ("operator/library/trial_cuda.cpp", "cudaStreamSynchronize cudaEventSynchronize", "trials of algorithms, for set_autotune alone"),
    ("storage/climb.cpp", "wait", "out of memory while another thread is giving memory back to the system"),
    ("storage/short_mutex.cpp", "wait", "a mutex held over a few instructions"),
    ("storage/source_async_cuda.cpp", "cudaStreamSynchronize", "an allocation of the driver's pool, on a stream without work"),
    ("storage/source_cuda.cpp", "cudaFree", "memory goes back to the driver: trimming, exhaustion, the end"),
]

BLOCKING = re.compile(
    r"\b(cuda(?:Stream|Device|Event|Context|Thread)Synchronize|cu(?:Ctx|Stream|Event)Synchronize|cudaMemcpy(?:2D|3D)?"
    r"|cudaMemset|cudaFree|cudaFreeHost|cudaDeviceReset)\s*\("
    r"|(?:(?<!\bqueue)(?<!\bstream)\.|(?<!\bstream_)->)\s*(wait|wait_for|wait_until|arrive_and_wait|timed_join|timed_wait)\s*\("
    r"|(?:\.|->)\s*(join)\s*\(\s*\)"
    r"|\b(sleep_for|sleep_until|usleep|nanosleep|sleep|pause|epoll_wait|sem_wait|pthread_join)\s*\(")


def calls(code):
    """(line, call) of each blocking call in C++ text."""
    for match in BLOCKING.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, next(g for g in match.groups() if g)


def is_allowed(name, call):
    return any(fnmatch.fnmatch(name, pattern) and call in calls_allowed.split() for pattern, calls_allowed, _ in ALLOWED)


def check(root):
    found = []
    for name in checker.files(root, checker.CODE):
        if name.split("/")[0] not in checker.ROOMS:
            continue
        for line, call in calls(checker.code_only(checker.read(root, name))):
            if not is_allowed(name, call):
                found.append(f"{name}:{line}: {call} blocks the host; allowed places stand in check_waiting.py")
    return found


CLEAN = {
    "operator/a.cpp": "void f(Queue queue) { queue.wait_for(p); a = b.join(c); }\n",
    "engine/engine.h": "// cudaDeviceSynchronize()\nvoid wait(Var v);\nint n = cudaMemcpyAsync(a, b, c, s);\n",
    "tests/engine/test_x.cpp": "void f() { latch.wait(); }\n",
}
PLANTS = [
    ("a device synchronisation", {"operator/a.cu": "void f() { cudaDeviceSynchronize(); }\n"}, "cudaDeviceSynchronize"),
    ("a stream synchronisation", {"engine/a.cpp": "void f() { check(cudaStreamSynchronize (s)); }\n"}, "cudaStreamSynchronize"),
    ("a blocking copy", {"ndarray/a_cuda.cpp": "void f() { cudaMemcpy(a, b, n, k); }\n"}, "cudaMemcpy "),
    ("a condition variable", {"gluon/a.cpp": "void f() { ready.wait(lock); }\n"}, "a.cpp:1: wait "),
    ("a timed wait", {"gluon/a.cpp": "void f() { ready->wait_for(lock, 1ms); }\n"}, "wait_for"),
    ("a sleep", {"operator/a.cpp": "\nvoid f() { std::this_thread::sleep_for(1ms); }\n"}, "a.cpp:2: sleep_for"),
    ("a join", {"storage/a.cpp": "void f() { thread.join(); }\n"}, "join"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
