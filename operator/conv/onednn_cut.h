#pragma once

#include <sluice/operator/conv/onednn_plan.h>

#ifdef SLUICE_ONEDNN
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <sluice/operator/library/pieces.h>

// How a pass of a convolution is cut into pieces that oneDNN runs, one thread each.
namespace sluice::detail {

/// Which extent the work is cut along.
enum class CutAxis : std::uint8_t { images, outputs, inputs };

/// Elements of the weight.
std::int64_t weights_of(const ConvolutionGeometry& g);

/// Images go one by one through the same weights. Where there are few, or where sums of weight gradients beside each
/// other would cost more than passing x again, channels are cut: those that are not summed over.
struct ConvolutionCut {
  CutAxis axis = CutAxis::images;
  Pieces pieces;

  ConvolutionCut(ConvolutionPass pass, const ConvolutionGeometry& g);

  ConvolutionPart part(const ConvolutionGeometry& g, std::int64_t piece) const;
  ConvolutionData data(const ConvolutionGeometry& g, const ConvolutionData& whole, std::int64_t piece) const;
};

/// What runs the first pieces, and the last one, which may be shorter.
struct ConvolutionPlans {
  std::shared_ptr<const OnednnPlan> first, last;
  std::int64_t count;

  ConvolutionPlans(
      Onednn& library, ConvolutionPass pass, const ConvolutionCut& cut, const ConvolutionGeometry& g, bool bias);
  bool usable() const { return first->usable && last->usable; }
  const OnednnPlan& of(std::int64_t piece) const { return piece == count - 1 ? *last : *first; }
};

/// Weights in the layout of a primitive: of a cut along images brought there once, for all pieces.
class WeightsOfPieces {
 public:
  WeightsOfPieces(const Queue& queue, const ConvolutionCut& cut, const ConvolutionPlans& plans, void* weight);
  /// To the call of a piece, whose own weights `weight` are where the cut is another one.
  void pass(OnednnCall& call, std::int64_t piece, void* weight) const;

 private:
  struct Beside {
    Beside(const Queue& queue, const OnednnPlan& plan, void* weight);

    void* data;
    std::optional<Workspace> copy = {};
  };

  const ConvolutionPlans& plans_;
  std::optional<Beside> first_, last_;
};

/// Gradients of the weight, by images beside each other, and of the bias, of which `run` makes those of a piece: in
/// float32, which half types are rounded from.
void add_weights(
    const Queue& queue,
    const ConvolutionCut& cut,
    const ConvolutionGeometry& g,
    const ConvolutionData& data,
    const std::function<void(std::int64_t piece, const ConvolutionData& part)>& run);

}  // namespace sluice::detail
#endif
