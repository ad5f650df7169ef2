#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/rnn/cell.h>

/// Cells that are made of cells, and one of dropout (Gluon's rnn.SequentialRNNCell and its kin).
namespace sluice::gluon::rnn {

/// Cells one on the other, named "0", "1", ...: the output of one is the input of the next (Gluon's SequentialRNNCell).
/// States are those of all, in order.
class SLUICE_API SequentialRNNCell : public Cell {
 public:
  /// Moves the cells in, in order. Throws ValueError for one that holds this one.
  template <std::derived_from<Cell>... Cells>
  requires(!std::is_lvalue_reference_v<Cells> && ...) void add(Cells&&... cells) {
    (add(adopt(std::move(cells))), ...);
  }
  /// One that others may hold too. Throws ValueError for null.
  template <std::derived_from<Cell> C>
  void add(std::shared_ptr<C> cell) {
    cells_.push_back(child(std::to_string(cells_.size()), std::move(cell)));
  }
  std::size_t size() const noexcept { return cells_.size(); }

  std::size_t num_states() const override;
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;
  Unrolled run(const Steps& steps) const override;

 private:
  std::vector<Child<Cell>> cells_;
};

/// Drops elements of its input in training; a cell without states (Gluon's DropoutCell).
class SLUICE_API DropoutCell : public Cell {
 public:
  /// Throws ValueError unless rate is within [0, 1].
  explicit DropoutCell(double rate);

  std::size_t num_states() const override { return 0; }
  Arrays begin_state(std::int64_t /*batch_size*/, Device /*device*/ = cpu()) const override { return {}; }

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;
  Unrolled run(const Steps& steps) const override;

 private:
  double rate_;
};

/// A cell that changes what another one does (Gluon's ModifierCell): to be derived from. Alone it gives what that
/// gives; states are that one's. Child "cell".
class SLUICE_API ModifierCell : public Cell {
 public:
  std::size_t num_states() const override { return cell_->num_states(); }
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override {
    return cell_->begin_state(batch_size, device);
  }

 protected:
  template <std::derived_from<Cell> C>
  requires(!std::is_lvalue_reference_v<C>) explicit ModifierCell(C&& cell) : cell_(child("cell", std::move(cell))) {}
  /// Throws ValueError for null.
  explicit ModifierCell(std::shared_ptr<Cell> cell) : cell_(child("cell", std::move(cell))) {}

  Arrays forward_all(std::span<const NDArray> inputs) const override;
  const Child<Cell>& cell() const noexcept { return cell_; }

 private:
  Child<Cell> cell_;
};

/// Gives what its cell gives, and the input with it (Gluon's ResidualCell). Child "cell".
class SLUICE_API ResidualCell : public ModifierCell {
 public:
  template <std::derived_from<Cell> C>
  requires(!std::is_lvalue_reference_v<C>) explicit ResidualCell(C&& cell) : ModifierCell(std::move(cell)) {}
  /// Throws ValueError for null.
  explicit ResidualCell(std::shared_ptr<Cell> cell) : ModifierCell(std::move(cell)) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;
  Unrolled run(const Steps& steps) const override;
};

/// Of a VariationalDropoutCell: shares of entries.
struct VariationalDropoutOptions {
  double inputs = 0;
  double states = 0;  // of the first state, which is the output of most cells
  double outputs = 0;
};

/// In training the same entries of inputs, of the first state and of outputs are dropped at all steps of an unroll()
/// (Gluon's VariationalDropoutCell; Gal and Ghahramani, 2016). A step that is called by itself is a sequence of one: it
/// drops entries of its own, where Gluon's keeps them until reset(). Child "cell".
class SLUICE_API VariationalDropoutCell : public ModifierCell {
 public:
  /// Throws ValueError for shares that are not within [0, 1].
  template <std::derived_from<Cell> C>
  requires(!std::is_lvalue_reference_v<C>) VariationalDropoutCell(C&& cell, VariationalDropoutOptions options)
      : ModifierCell(std::move(cell)), options_(checked(options)) {}
  /// Throws ValueError for null too.
  VariationalDropoutCell(std::shared_ptr<Cell> cell, VariationalDropoutOptions options)
      : ModifierCell(std::move(cell)), options_(checked(options)) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;
  Unrolled run(const Steps& steps) const override;

 private:
  VariationalDropoutOptions checked(VariationalDropoutOptions options);
  Unrolled with_dropped_states(const Steps& steps, const NDArray& x) const;

  VariationalDropoutOptions options_;
};

/// Of a ZoneoutCell.
struct ZoneoutOptions {
  double outputs = 0;  // share of elements that keep what they were, in training
  double states = 0;
};

/// In training elements of output and states keep, at random, what they were a step before (Gluon's ZoneoutCell;
/// Krueger and others, 2017). Where outputs are so kept, the last state is the output before, zeros at first, which
/// Gluon's keeps to itself. Child "cell".
class SLUICE_API ZoneoutCell : public ModifierCell {
 public:
  /// Throws ValueError for shares that are not within [0, 1].
  template <std::derived_from<RecurrentCell> C>
  requires(!std::is_lvalue_reference_v<C>) explicit ZoneoutCell(C&& cell, ZoneoutOptions options)
      : ModifierCell(std::move(cell)), options_(checked(options)) {}

  std::size_t num_states() const override { return cell()->num_states() + (options_.outputs > 0 ? 1 : 0); }
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  ZoneoutOptions checked(ZoneoutOptions options);

  ZoneoutOptions options_;
};

/// Two cells over a sequence, one from either end; outputs beside each other along the last axis, states those of the
/// one, then of the other (Gluon's BidirectionalCell). It can only be unrolled. Children "l_cell" and "r_cell".
class SLUICE_API BidirectionalCell : public Cell {
 public:
  template <std::derived_from<Cell> L, std::derived_from<Cell> R>
  requires(!std::is_lvalue_reference_v<L> && !std::is_lvalue_reference_v<R>) BidirectionalCell(L&& l_cell, R&& r_cell)
      : l_cell_(child("l_cell", std::move(l_cell))), r_cell_(child("r_cell", std::move(r_cell))) {}

  std::size_t num_states() const override { return l_cell_->num_states() + r_cell_->num_states(); }
  Arrays begin_state(std::int64_t batch_size, Device device = cpu()) const override;

 protected:
  /// Throws UnsupportedError: there is no step of a sequence that comes from both ends.
  Arrays forward_all(std::span<const NDArray> inputs) const override;
  Unrolled run(const Steps& steps) const override;

 private:
  Child<Cell> l_cell_, r_cell_;
};

}  // namespace sluice::gluon::rnn
