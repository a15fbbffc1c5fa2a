// Library calls of compiled programs that PyTorch serves: convolutions and 16-bit products by its oneDNN, and any functional operation by its CPU kernel.
//
//   thalweg.convolution  mode=forward: (input, weight) → output; input_grad: (grad_output, weight) → grad_input; weight_grad: (grad_output, input) →
//                        grad_weight; with stride, padding, dilation, transposed, output_padding, groups as PyTorch has them
//   thalweg.matmul       (a, b) → at::matmul(a, b), of any ranks that it takes; with transpose_a or transpose_b the last two dims of that one swapped
//   thalweg.aten         op=NAME.OVERLOAD: the tensors in order as the operation's tensor arguments, everything else at its default
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <sstream>

#include "aten/backend_key.h"
#include "aten/dtypes.h"
#include "aten/registration.h"
#include "libs/cpu/opaque.h"
#include "libs/cpu/parallel.h"
#include "support/error.h"

namespace thalweg::aten {
namespace {

using libs::cpu::TensorArg;
using Args = std::span<const TensorArg>;

// The entries of "name=value;name=value;".
class Config {
 public:
  explicit Config(const std::string& text) {
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ';');) {
      const size_t equals = entry.find('=');
      if (equals != std::string::npos) values_[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  const std::string& text(const std::string& name) const {
    const auto at = values_.find(name);
    THALWEG_ASSERT(at != values_.end(), "a library call's configuration has no ", name);
    return at->second;
  }
  bool flag(const std::string& name) const { return values_.count(name) != 0 && integer(name) != 0; }
  int64_t integer(const std::string& name) const { return std::stoll(text(name)); }
  std::vector<int64_t> integers(const std::string& name) const {
    std::vector<int64_t> out;
    std::istringstream items(text(name));
    for (std::string item; std::getline(items, item, ',');) out.push_back(std::stoll(item));
    return out;
  }

 private:
  std::map<std::string, std::string> values_;
};

at::Tensor tensor_over(const TensorArg& arg) {
  return at::from_blob(arg.data, arg.dims, at::TensorOptions().dtype(scalar_type(static_cast<ir::DType>(arg.dtype))));
}

// Puts a result where the program wants it, unless it is there already.
void deliver(const at::Tensor& result, const TensorArg& out) {
  if (result.data_ptr() != out.data) tensor_over(out).copy_(result);
}

// PyTorch's thread count is each thread's own: the stream's thread takes over the one of our loops, which is the launching thread's.
void take_over_thread_count() {
  static thread_local int applied = 0;
  if (const int wanted = libs::cpu::threads(); wanted != applied) {
    at::set_num_threads(wanted);
    applied = wanted;
  }
}

// While it lives, PyTorch's kernels on this thread use no thread beside it: the thread is a part of a loop of our own pool. OpenMP keeps the count by thread;
// at::set_num_threads would change it for threads to come as well.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { set(1); }
  ~OneThread() { set(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  // False where PyTorch's parallel loops are not OpenMP's.
  static bool possible() { return setter() != nullptr; }

 private:
  using Setter = void (*)(int);
  static Setter setter() {
    static const auto found = reinterpret_cast<Setter>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    return found;
  }
  static void set(int count) { setter()(count); }

  int before_;
};

// One convolution or one of its gradients, as the program asks for it.
struct Convolution {
  explicit Convolution(const Config& config)
      : mode(config.text("mode")),
        stride(config.integers("stride")),
        padding(config.integers("padding")),
        dilation(config.integers("dilation")),
        output_padding(config.integers("output_padding")),
        transposed(config.integer("transposed") != 0),
        groups(config.integer("groups")) {}

  // forward: (input, weight); input_grad: (grad_output, weight); weight_grad: (grad_output, input). `wanted` is the result's place: the operand that is
  // being differentiated matters only by its shape.
  at::Tensor run(const at::Tensor& a, const at::Tensor& b, const at::Tensor& wanted) const {
    if (mode == "forward") return at::convolution(a, b, {}, stride, padding, dilation, transposed, output_padding, groups);
    const bool for_input = mode == "input_grad";
    const auto grads = at::convolution_backward(a, for_input ? wanted : b, for_input ? b : wanted, std::nullopt, stride, padding, dilation, transposed,
                                                output_padding, groups, {for_input, !for_input, false});
    return for_input ? std::get<0>(grads) : std::get<1>(grads);
  }

  std::string mode;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// The ways to share a convolution between threads.
enum class Share { kWhole, kBatch, kBatchSums, kChannels };

// Over the batch where the result has one. A weight's gradient is a sum over the batch: either each thread sums its share of it and the sums are added, or
// each takes some output channels, which copies the gradient of the output; whichever moves less.
Share choose_share(const Convolution& c, const at::Tensor& a, const at::Tensor& wanted, int parts) {
  constexpr int64_t kImagesAPart = 4;  // fewer, and every thread's preparing of the weights is what the time goes to
  const bool batched = a.dim() == wanted.dim() && a.size(0) >= kImagesAPart * parts;
  if (parts < 2 || !OneThread::possible()) return Share::kWhole;
  if (c.mode != "weight_grad") return batched ? Share::kBatch : Share::kWhole;
  const bool channels = !c.transposed && c.groups == 1 && wanted.size(0) % parts == 0 && wanted.size(0) >= 16 * parts;
  if (channels && (!batched || wanted.numel() > a.numel())) return Share::kChannels;
  return batched ? Share::kBatchSums : Share::kWhole;
}

void convolution(const std::string& text, Args in, Args out) {
  BelowAutograd guard;
  take_over_thread_count();
  const Convolution c{Config(text)};
  const at::Tensor a = tensor_over(in[0]), b = tensor_over(in[1]);
  at::Tensor wanted = tensor_over(out[0]);
  const int parts = libs::cpu::threads();
  const Share share = choose_share(c, a, wanted, parts);
  if (share == Share::kWhole) return deliver(c.run(a, b, wanted), out[0]);
  std::vector<at::Tensor> sums(parts);
  libs::cpu::parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    BelowAutograd part_guard;
    const OneThread alone;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = share == Share::kChannels ? wanted.size(0) : a.size(0), from = n * i / parts, count = n * (i + 1) / parts - from;
      const at::Tensor some = a.narrow(share == Share::kChannels ? 1 : 0, from, count);
      if (share == Share::kBatchSums) {
        sums[i] = c.run(some, b.narrow(0, from, count), wanted);
      } else {
        at::Tensor part = wanted.narrow(0, from, count);
        part.copy_(c.run(some, b, part));
      }
    }
  });
  if (share != Share::kBatchSums) return;
  at::add_out(wanted, sums[0], sums[1]);
  for (int i = 2; i < parts; ++i) wanted.add_(sums[i]);
}

// Shares rows of a product, or matrices of a batch, between our threads, for the same reason as convolutions.
void matmul(const std::string& text, Args in, Args out) {
  constexpr int64_t kRowsAPart = 64;  // fewer, and every thread's packing of the other operand is what the time goes to
  BelowAutograd guard;
  take_over_thread_count();
  const Config config(text);
  at::Tensor a = tensor_over(in[0]), b = tensor_over(in[1]), result = tensor_over(out[0]);
  if (config.flag("transpose_a")) a = a.transpose(-2, -1);
  if (config.flag("transpose_b")) b = b.transpose(-2, -1);
  const int parts = libs::cpu::threads();
  const bool matrix = a.dim() == 2 && b.dim() == 2 && result.size(0) >= kRowsAPart * parts;
  const bool batch = a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(0) >= parts;
  if (parts < 2 || !OneThread::possible() || (!matrix && !batch)) {
    at::matmul_out(result, a, b);
    return deliver(result, out[0]);
  }
  libs::cpu::parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    BelowAutograd part_guard;
    const OneThread alone;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = matrix ? 16 : 1, n = result.size(0) / unit, last = i + 1 == parts ? result.size(0) : n * (i + 1) / parts * unit;
      const int64_t from = n * i / parts * unit, count = last - from;
      at::Tensor part = result.narrow(0, from, count);
      const void* place = part.data_ptr();
      at::matmul_out(part, a.narrow(0, from, count), batch ? b.narrow(0, from, count) : b);
      if (part.data_ptr() != place) result.narrow(0, from, count).copy_(part);
    }
  });
}

void aten_operation(const std::string& text, Args in, Args out) {
  BelowAutograd guard;
  const std::string name = Config(text).text("op");
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
  torch::jit::Stack stack;
  size_t next = 0;
  for (const auto& argument : op.schema().arguments()) {
    const bool is_tensor = argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
    if (is_tensor && next < in.size()) {
      stack.emplace_back(tensor_over(in[next++]));
    } else {
      stack.push_back(argument.default_value().value_or(c10::IValue()));
    }
  }
  op.callBoxed(&stack);
  THALWEG_ASSERT(stack.size() == out.size(), name, " gave ", stack.size(), " results");
  for (size_t i = 0; i < out.size(); ++i) deliver(stack[i].toTensor(), out[i]);
}

}  // namespace

void note_thread_count() { libs::cpu::set_threads(at::get_num_threads()); }

void register_library_calls() {
  libs::cpu::register_opaque("thalweg.convolution", &convolution);
  libs::cpu::register_opaque("thalweg.matmul", &matmul);
  libs::cpu::register_opaque("thalweg.aten", &aten_operation);
}

}  // namespace thalweg::aten
