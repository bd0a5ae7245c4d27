#ifdef RONDO_HAS_CUDA

#include "support/host_cudnn_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "tensor/convert.h"

namespace rondo::test {
namespace {

std::vector<const Node*> operations_of(const Node& graph) {
  std::vector<const Node*> nodes;
  for (auto handle : graph.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    nodes.push_back(&of(handle));
  return nodes;
}

/// Calls f with a value of the C++ type.
template <class F>
void visit_type(cudnnDataType_t type, F f) {
  if (type == CUDNN_DATA_FLOAT) return f(float{});
  if (type == CUDNN_DATA_BFLOAT16) return f(BFloat16{});
  if (type == CUDNN_DATA_HALF) return f(Half{});
  f(double{});
}

}  // namespace

bool HostGraph::is_one(const Node& graph) {
  const auto type = operations_of(graph).front()->type;
  return type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
         type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR &&
         type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

HostGraph::HostGraph(const Node& graph) {
  for (const Node* op : operations_of(graph)) {
    Operation operation{.type = op->type, .operands = {}};
    if (op->has(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)) {
      const Node& how = op->node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      operation.mode = how.one<int>(CUDNN_ATTR_POINTWISE_MODE);
      operation.keeps_nan =
          how.one<int>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
      operation.axis = how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    }
    if (op->has(CUDNN_ATTR_OPERATION_REDUCTION_DESC))
      operation.mode =
          op->node(CUDNN_ATTR_OPERATION_REDUCTION_DESC).one<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
    if (op->has(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE))
      operation.mode = op->one<int>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE);
    for (const auto& [name, attribute] : op->attributes) {
      if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
      const Node& tensor = op->node(name);
      if (tensor.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
      operation.operands[name] = {
          .uid = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          .type = tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          .dims = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          .strides = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          .is_between = tensor.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0,
          .is_number = tensor.one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0};
    }
    operations_.push_back(std::move(operation));
  }
}

/// One execution: values by tensor name, in row-major order of the four dimensions.
class HostGraph::Run {
 public:
  Run(std::map<std::int64_t, void*> pointers, std::map<std::int64_t, double> numbers)
      : pointers_(std::move(pointers)), numbers_(std::move(numbers)) {}

  void operator()(const Operation& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return op.mode == CUDNN_NORM_FWD_TRAINING ? training(op) : inference(op);
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return backward(op);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(op);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduction(op);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(op);
      default:
        return pointwise(op);
    }
  }

 private:
  using Values = std::vector<double>;

  template <class F>
  static void for_each(const Operand& t, F f) {
    std::size_t i = 0;
    for (std::int64_t n = 0; n < t.dims[0]; ++n)
      for (std::int64_t c = 0; c < t.dims[1]; ++c)
        for (std::int64_t h = 0; h < t.dims[2]; ++h)
          for (std::int64_t w = 0; w < t.dims[3]; ++w)
            f(i++, n * t.strides[0] + c * t.strides[1] + h * t.strides[2] + w * t.strides[3]);
  }
  static std::size_t numel(const Operand& t) {
    return static_cast<std::size_t>(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]);
  }
  Values read(const Operation& op, int name) {
    const Operand& t = op.operands.at(name);
    if (t.is_between) return between_.at(t.uid);
    if (t.is_number) return {numbers_.at(t.uid)};
    Values values(numel(t));
    visit_type(t.type, [&]<class T>(T) {
      const T* from = static_cast<const T*>(pointers_.at(t.uid));
      for_each(t, [&](std::size_t i, std::int64_t at) { values[i] = convert<double>(from[at]); });
    });
    return values;
  }
  double number(const Operation& op, int name) { return numbers_.at(op.operands.at(name).uid); }
  void write(const Operation& op, int name, const Values& values) {
    const Operand& t = op.operands.at(name);
    visit_type(t.type, [&]<class T>(T) {
      if (t.is_between) {
        Values& kept = between_[t.uid];
        for (double v : values) kept.push_back(convert<double>(convert<T>(v)));
        return;
      }
      T* to = static_cast<T*>(pointers_.at(t.uid));
      for_each(t, [&](std::size_t i, std::int64_t at) { to[at] = convert<T>(values[i]); });
    });
  }

  struct Sizes {
    std::size_t images, channels, pixels;
    explicit Sizes(const Operand& x)
        : images(static_cast<std::size_t>(x.dims[0])),
          channels(static_cast<std::size_t>(x.dims[1])),
          pixels(static_cast<std::size_t>(x.dims[2] * x.dims[3])) {}
    double count() const { return static_cast<double>(images * pixels); }
    /// Calls f(index) for every value of a channel.
    template <class F>
    void of_channel(std::size_t c, F f) const {
      for (std::size_t n = 0; n < images; ++n)
        for (std::size_t p = 0; p < pixels; ++p) f((n * channels + c) * pixels + p);
    }
  };

  void training(const Operation& op) {
    const Sizes sizes(op.operands.at(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC));
    const Values x = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    const double eps = number(op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
    Values mean(sizes.channels), invstd(sizes.channels), unbiased(sizes.channels);
    for (std::size_t c = 0; c < sizes.channels; ++c) {
      double sum = 0, squares = 0;
      sizes.of_channel(c, [&](std::size_t i) { sum += x[i]; });
      mean[c] = sum / sizes.count();
      sizes.of_channel(c, [&](std::size_t i) { squares += (x[i] - mean[c]) * (x[i] - mean[c]); });
      invstd[c] = 1 / std::sqrt(squares / sizes.count() + eps);
      unbiased[c] = squares / (sizes.count() - 1);
    }
    write(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
    write(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, invstd);
    inference(op);  // with these statistics
    if (!op.operands.contains(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC)) return;
    const double factor = number(op, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC);
    auto average = [&](int from, int to, const Values& now) {
      Values running = read(op, from);
      for (std::size_t c = 0; c < now.size(); ++c)
        running[c] = (1 - factor) * running[c] + factor * now[c];
      write(op, to, running);
    };
    average(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
            CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, mean);
    average(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
            CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, unbiased);
  }

  void inference(const Operation& op) {
    const Sizes sizes(op.operands.at(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC));
    const Values x = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    const Values mean = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
    const Values invstd = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
    const Values gamma = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
    const Values beta = read(op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    Values y(x.size());
    for (std::size_t c = 0; c < sizes.channels; ++c)
      sizes.of_channel(
          c, [&](std::size_t i) { y[i] = (x[i] - mean[c]) * invstd[c] * gamma[c] + beta[c]; });
    write(op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
  }

  void backward(const Operation& op) {
    const Sizes sizes(op.operands.at(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC));
    const Values x = read(op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
    const Values dy = read(op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
    const Values gamma = read(op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
    const Values mean = read(op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
    const Values invstd = read(op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC);
    Values dx(x.size()), dgamma(sizes.channels), dbeta(sizes.channels);
    for (std::size_t c = 0; c < sizes.channels; ++c) {
      auto normal = [&](std::size_t i) { return (x[i] - mean[c]) * invstd[c]; };
      sizes.of_channel(c, [&](std::size_t i) {
        dbeta[c] += dy[i];
        dgamma[c] += dy[i] * normal(i);
      });
      sizes.of_channel(c, [&](std::size_t i) {
        dx[i] = gamma[c] * invstd[c] *
                (dy[i] - dbeta[c] / sizes.count() - normal(i) * dgamma[c] / sizes.count());
      });
    }
    write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
    write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dgamma);
    write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbeta);
  }

  /// The element of a tensor of sizes `to` that belongs to element i of one of sizes `from`: sizes
  /// of 1 and fewer heads are shared.
  static std::size_t shared_index(std::size_t i, const Operand& from, const Operand& to) {
    std::size_t index = 0, rest = numel(from);
    for (std::size_t d = 0; d < 4; ++d) {
      const auto here = static_cast<std::size_t>(from.dims[d]);
      const auto there = static_cast<std::size_t>(to.dims[d]);
      rest /= here;
      index = index * there + i / rest % here * there / here;
    }
    return index;
  }

  void pointwise(const Operation& op) {
    if (op.operands.contains(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC)) return relu_backward(op);
    const Operand& of_y = op.operands.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const auto spread = [&](int name) {
      Values all(numel(of_y));
      if (!op.operands.contains(name)) return all;
      const Values given = read(op, name);
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = given[shared_index(i, of_y, op.operands.at(name))];
      return all;
    };
    const Values x = spread(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                 b = spread(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                 chosen = spread(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    std::size_t after = 1;  // elements of one index along the axis
    for (std::size_t d = 4; --d > static_cast<std::size_t>(op.axis);)
      after *= static_cast<std::size_t>(of_y.dims[d]);
    const auto size = static_cast<std::size_t>(of_y.dims[static_cast<std::size_t>(op.axis)]);
    Values y(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) switch (op.mode) {
        case CUDNN_POINTWISE_ADD:
          y[i] = x[i] + b[i];
          break;
        case CUDNN_POINTWISE_SUB:
          y[i] = x[i] - b[i];
          break;
        case CUDNN_POINTWISE_MUL:
          y[i] = x[i] * b[i];
          break;
        case CUDNN_POINTWISE_DIV:
          y[i] = x[i] / b[i];
          break;
        case CUDNN_POINTWISE_EXP:
          y[i] = std::exp(x[i]);
          break;
        case CUDNN_POINTWISE_LOG:
          y[i] = std::log(x[i]);
          break;
        case CUDNN_POINTWISE_IDENTITY:
          y[i] = x[i];
          break;
        case CUDNN_POINTWISE_GEN_INDEX:
          y[i] = static_cast<double>(i / after % size);
          break;
        case CUDNN_POINTWISE_CMP_GE:
          y[i] = x[i] >= b[i];
          break;
        case CUDNN_POINTWISE_BINARY_SELECT:
          y[i] = chosen[i] != 0 ? x[i] : b[i];
          break;
        case CUDNN_POINTWISE_RELU_FWD:
          y[i] = x[i] > 0 || (op.keeps_nan && std::isnan(x[i])) ? x[i] : 0;
          break;
        default:
          std::abort();  // none of rondo's graphs has it
      }
    write(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }

  void relu_backward(const Operation& op) {
    const Values x = read(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const Values dy = read(op, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC);
    Values dx(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
    write(op, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
  }

  /// The products of the matrices in the last two dimensions.
  void matmul(const Operation& op) {
    const Operand &of_a = op.operands.at(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                  &of_b = op.operands.at(CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                  &of_c = op.operands.at(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const Values a = read(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                 b = read(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    const auto rows = static_cast<std::size_t>(of_c.dims[2]),
               columns = static_cast<std::size_t>(of_c.dims[3]),
               terms = static_cast<std::size_t>(of_a.dims[3]);
    if (of_b.dims[2] != of_a.dims[3] || of_b.dims[3] != of_c.dims[3] ||
        of_a.dims[2] != of_c.dims[2])
      std::abort();  // the library would reject it
    Values c(numel(of_c));
    for (std::size_t m = 0; m < c.size() / rows / columns; ++m) {
      const std::size_t first = m * rows * columns;
      const double *left = a.data() + shared_index(first, of_c, of_a),
                   *right = b.data() + shared_index(first, of_c, of_b);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < terms; ++k)
          for (std::size_t j = 0; j < columns; ++j)
            c[first + i * columns + j] += left[i * terms + k] * right[k * columns + j];
    }
    write(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  }

  void reduction(const Operation& op) {
    const Operand &of_x = op.operands.at(CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                  &of_y = op.operands.at(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool largest = op.mode == CUDNN_REDUCE_TENSOR_MAX;
    const Values x = read(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    Values y(numel(of_y), largest ? -std::numeric_limits<double>::infinity() : 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      double& to = y[shared_index(i, of_x, of_y)];
      to = largest ? std::max(to, x[i]) : to + x[i];
    }
    write(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  }

  /// The same memory with other sizes and strides.
  void reshape(const Operation& op) {
    const Operand &of_x = op.operands.at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
                  &of_y = op.operands.at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    const Values x = read(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    std::map<std::int64_t, double> memory;
    for_each(of_x, [&](std::size_t i, std::int64_t at) { memory[at] = x[i]; });
    Values y(numel(of_y));
    for_each(of_y, [&](std::size_t i, std::int64_t at) { y[i] = memory.at(at); });
    write(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  }

  std::map<std::int64_t, void*> pointers_;
  std::map<std::int64_t, double> numbers_;
  std::map<std::int64_t, Values> between_;
};

std::function<void()> HostGraph::with(const std::vector<std::int64_t>& uids,
                                      const std::vector<void*>& pointers) const {
  std::map<std::int64_t, void*> by_name;
  for (std::size_t i = 0; i < uids.size(); ++i) by_name[uids[i]] = pointers[i];
  std::map<std::int64_t, double> numbers;
  for (const Operation& op : operations_) {
    for (const auto& [name, t] : op.operands) {
      if (t.is_between) continue;
      if (!by_name.contains(t.uid)) return {};
      if (t.is_number) numbers[t.uid] = *static_cast<const float*>(by_name[t.uid]);
    }
  }
  return [operations = operations_, by_name, numbers] {
    Run run(by_name, numbers);
    for (const Operation& op : operations) run(op);
  };
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
