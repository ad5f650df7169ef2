#pragma once

#include <cstdint>
#include <functional>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

// Loops and branches whose bodies are programs of arrays. Called as they stand they are C++'s own: the bodies run, and
// what they call is recorded. Where calls are taken (a Tracer, and with it hybridized blocks, TrainStep, export_to)
// bodies are called with arrays without memory, to be traced, and become part of the graph. So a body must not look at
// values, nor count its calls. What it uses beside its arguments, parameters say, gets gradients as everywhere; where
// the side of a cond that uses it is not taken, or no turn is, those are zeros. Not traced, it gets none then: an old
// gradient stays as it is, and a Trainer sees it as stale. So experts that a traced branch does not ask are moved by an
// optimizer with momentum or decay. What such a loop or branch gives is on the tape as soon as one side's would be.
namespace sluice {

/// What a turn of a loop gives, and what a loop gives: outputs, and the arrays that go on to the next turn.
struct LoopResult {
  Arrays outputs = {};
  Arrays states = {};
};

/// A turn of foreach: entry i of each array of data, and the states.
using ForeachBody = std::function<LoopResult(const Arrays& data, const Arrays& states)>;
/// Whether while_loop takes another turn: one element of any type; what is not zero, NaN too, is true.
using LoopCondition = std::function<NDArray(const Arrays& loop_vars)>;
/// A turn of while_loop.
using LoopBody = std::function<LoopResult(const Arrays& loop_vars)>;
/// One side of cond.
using Branch = std::function<Arrays(const Arrays& inputs)>;

/// Calls `body` for each entry of data's first axis, in order, with the states that the turn before gave; the first
/// has `states`. Gives the bodies' outputs, stacked along a new first axis, and the last states. Without entries
/// outputs are empty, of the shapes that a traced call of the body says, and the states are those that were given.
///
/// Traced, up to 32 turns (and a body that draws random numbers, or writes in place, always) become the calls that they
/// are, as if written one after the other; more turns are one node that holds the body once, and whose gradient
/// computes the body again from each turn's states. That gradient adds up what an array gets in one turn before it adds
/// turns to each other: as without tracing but for rounding, where a turn uses an array twice.
///
/// Throws ValueError for no data, undefined arrays and numbers of outputs or states that change; ShapeError, DTypeError
/// and DeviceError for data of several lengths, outputs or states that become others than at the first turn; what the
/// body throws. Does not wait.
SLUICE_API LoopResult foreach(
    const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site = SourceLocation::current());

/// Calls `body` as long as `condition` says so, `max_iterations` times at most. Gives the bodies' outputs, stacked
/// along a new first axis of length max_iterations whatever turns were taken, zeros behind them (MXNet leaves those
/// undefined and gives no outputs where no turn was taken), and the last loop_vars. Loop variables keep shape, type and
/// device (MXNet's imperative loop lets them change).
///
/// The calling thread waits for each condition's value. Traced, the loop is one node. On a GPU it is part of the plan's
/// CUDA graph as a cond is, and nobody waits; otherwise whoever runs the plan does, then runs the body's own plan. The
/// gradient goes back over the turns taken, rounding as foreach says; recorded, the node has room for the loop
/// variables of max_iterations turns, whatever are taken. Traced bodies that draw random numbers or write in place:
/// UnsupportedError.
///
/// Throws as foreach does; ValueError for no loop_vars or negative max_iterations, ShapeError for a condition that has
/// not one element.
SLUICE_API LoopResult while_loop(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site = SourceLocation::current());

/// then_body(inputs) where the one element of `predicate` is not zero (NaN is not), else_body(inputs) where it is.
///
/// The calling thread waits for the predicate's value. Traced, both bodies are called, and must give arrays of the same
/// number, shapes, types and device; they are one node. On a GPU it is part of the plan's CUDA graph where all that the
/// bodies call may be: the GPU looks at the predicate, and nobody waits. Otherwise, or once CUDA has refused that
/// graph, whoever runs the plan waits, then runs the plan of the one that is taken. Its gradient computes that one
/// again. Traced bodies that draw random numbers or write in place: UnsupportedError.
///
/// Throws ShapeError for a predicate that has not one element; ValueError for undefined arrays; where traced
/// ValueError, ShapeError, DTypeError, DeviceError for bodies that differ; what a body throws.
SLUICE_API Arrays cond(
    const NDArray& predicate,
    const Branch& then_body,
    const Branch& else_body,
    const Arrays& inputs = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
