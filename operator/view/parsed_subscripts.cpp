// What stands between the brackets of a[{..}], by NumPy's rules.
#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/order/select.h>
#include <sluice/operator/view/parsed_subscripts.h>

namespace sluice::detail {

namespace {

using Kind = Subscript::Kind;

class Parser {
 public:
  Parser(const char* op, std::initializer_list<Subscript> at, const Shape& shape, SourceLocation site)
      : op_(op), at_(at), shape_(shape), site_(site) {}

  ParsedSubscripts parsed() {
    count();
    for (const Subscript& each : at_)
      add(each);
    made_.ndim = place_ + (rests_ == 0 ? shape_.ndim() - named_ : 0);
    return made_;
  }

 private:
  static bool is_mask(const Subscript& each) { return each.array().dtype() == bool_; }

  /// Axes of the array that the subscript is for.
  int axes_of(const Subscript& each) const {
    if (each.kind() != Kind::array)
      return each.kind() == Kind::entry || each.kind() == Kind::range ? 1 : 0;
    require<ValueError>(
        each.array().defined(), [&] { return message(op_, ": an index array is an undefined NDArray"); });
    require<DTypeError>(is_mask(each) || is_integer(each.array().dtype()), [&] {
      return message(op_, ": index arrays are of an integer type or masks (bool), not ", each.array().dtype());
    });
    return is_mask(each) ? object_of(each.array(), op_).shape.ndim() : 1;
  }

  void count() {
    for (const Subscript& each : at_) {
      named_ += axes_of(each);
      rests_ += each.kind() == Kind::rest ? 1 : 0;
    }
    require<IndexError>(named_ <= shape_.ndim(), [&] {
      return message(op_, ": subscripts of ", named_, " axes of an array of shape ", shape_);
    });
    require<IndexError>(
        rests_ <= 1, [&] { return message(op_, ": ", rests_, " times k_rest, of which one may stand"); });
  }

  void add(const Subscript& each) {
    const bool stays = each.kind() == Kind::array || each.kind() == Kind::entry;
    stays ? note_named() : note_other();
    switch (each.kind()) {
      case Kind::entry:
        return add_axis(each.begin(), 0, 0);
      case Kind::range:
        require<ValueError>(each.step() != 0, [&] { return message(op_, ": the step of a range must not be 0"); });
        return add_axis(each.begin(), each.end(), each.step());
      case Kind::new_axis:
        return made_.new_axes.push_back(place_++);
      case Kind::rest:
        for (int left = shape_.ndim() - named_; left > 0; --left)
          add_all();
        return;
      case Kind::array:
        is_mask(each) ? add_mask(each.array()) : add_numbers(each.array());
    }
  }

  // Index arrays and entries stand side by side, or something is between two of them.
  void note_named() {
    if (!is_first_known_)
      made_.first = place_;
    is_first_known_ = true;
    made_.apart = made_.apart || is_behind_;
  }
  void note_other() { is_behind_ = is_first_known_; }

  void add_axis(std::int64_t begin, std::int64_t end, std::int64_t step) {
    made_.attributes.begin.push_back(begin);
    made_.attributes.end.push_back(end);
    made_.attributes.step.push_back(step);
    place_ += step != 0 ? 1 : 0;
  }
  void add_all() { add_axis(Subscript().begin(), Subscript().end(), 1); }

  void add_numbers(const NDArray& numbers) {
    made_.named.push_back(place_);
    made_.arrays.push_back(numbers);
    add_all();
  }

  void add_mask(const NDArray& mask) {
    const Shape& over = object_of(mask, op_).shape;
    const int from = made_.attributes.begin.ndim();
    bool fits = true;
    for (int axis = 0; axis < over.ndim(); ++axis)
      fits = fits && over[axis] == shape_[from + axis];
    require<ShapeError>(fits, [&] {
      return message(op_, ": a mask of shape ", over, " at axis ", from, " of an array of shape ", shape_);
    });
    if (over.empty()) {
      made_.named.push_back(place_);
      made_.new_axes.push_back(place_++);
      made_.arrays.push_back(nonzero(mask.reshape({1}, site_), site_).reshape({-1}, site_));
      return;
    }
    const NDArray places = nonzero(mask, site_);
    for (int axis = 0; axis < over.ndim(); ++axis)
      add_numbers(places.slice(1, axis, axis + 1, 1, site_).reshape({-1}, site_));
  }

  const char* const op_;
  const std::initializer_list<Subscript> at_;
  const Shape& shape_;
  const SourceLocation site_;
  int named_ = 0, rests_ = 0;
  int place_ = 0;  // in the view
  bool is_first_known_ = false, is_behind_ = false;
  ParsedSubscripts made_;
};

}  // namespace

IndexAssignAttributes ParsedSubscripts::placed() const {
  IndexAssignAttributes call;
  static_cast<SubscriptAttributes&>(call) = attributes;
  Shape axis_at = Shape::filled(ndim, -1);  // of the view, without its new axes
  for (int place = 0, axis = 0; place < ndim; ++place) {
    if (std::find(new_axes.begin(), new_axes.end(), place) == new_axes.end())
      axis_at[place] = axis++;
  }
  if (!apart) {
    call.order = axis_at;
    call.axis = first;
    return call;
  }
  for (const int place : named)
    call.order.push_back(axis_at[place]);
  for (int place = 0; place < ndim; ++place) {
    if (std::find(named.begin(), named.end(), place) == named.end())
      call.order.push_back(axis_at[place]);
  }
  return call;
}

bool ParsedSubscripts::names_first_axes() const noexcept {
  return !arrays.empty() && is_whole(attributes) && new_axes.empty() && !apart && first == 0;
}

ParsedSubscripts parse_subscripts(
    const char* op, std::initializer_list<Subscript> at, const Shape& shape, SourceLocation site) {
  return Parser(op, at, shape, site).parsed();
}

bool is_whole(const SubscriptAttributes& attributes) noexcept {
  bool whole = true;
  for (int axis = 0; axis < attributes.begin.ndim(); ++axis) {
    whole = whole && attributes.begin[axis] == Subscript().begin() && attributes.end[axis] == Subscript().end() &&
            attributes.step[axis] == 1;
  }
  return whole;
}

}  // namespace sluice::detail
