// Products and checks on GPUs.
#include "compiler/cuda_steps.h"

#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "codegen/expression.h"
#include "codegen/scalar_text.h"
#include "compiler/cuda_code.h"
#include "libs/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "support/object_cache.h"

namespace thalweg::compiler {
namespace {

using ir::DType;
using libs::cuda::Product;
using libs::cuda::ProductShape;
using libs::cuda::ProductType;

ProductType type_of(exec::Element element) {
  switch (element) {
    case exec::Element::F64:
      return ProductType::F64;
    case exec::Element::F16:
      return ProductType::F16;
    case exec::Element::BF16:
      return ProductType::BF16;
    case exec::Element::F32:
      break;
  }
  return ProductType::F32;
}

int64_t bytes_of(exec::Element element) { return element == exec::Element::F64 ? 8 : element == exec::Element::F32 ? 4 : 2; }

// The products of a shape that this process has made ready, kept for its life.
std::shared_ptr<const Product> product_of(runtime::Device& device, const ProductShape& shape, unsigned alignment, bool measured) {
  static auto* mutex = new std::mutex;
  static auto* made = new std::map<std::tuple<const runtime::Device*, ProductShape, unsigned, bool>, std::shared_ptr<const Product>>;
  std::scoped_lock lock(*mutex);
  std::shared_ptr<const Product>& product = (*made)[{&device, shape, alignment, measured}];
  if (!product) {
    auto fresh = std::make_shared<Product>(device, shape, alignment);
    if (measured) fresh->measure(device.compute_stream());
    product = std::move(fresh);
  }
  return product;
}

// How many entries from the first on lie at equal distances, in all three matrices; with the distances.
struct Run {
  int64_t length = 1, a = 0, b = 0, c = 0;
};

Run regular_run(const exec::GemmCommand& g) {
  const int64_t n = static_cast<int64_t>(g.a_offsets.size());
  Run run;
  if (n == 1) return run;
  run.a = g.a_offsets[1] - g.a_offsets[0], run.b = g.b_offsets[1] - g.b_offsets[0], run.c = g.c_offsets[1] - g.c_offsets[0];
  auto follows = [&](int64_t i) {
    return g.a_offsets[i] - g.a_offsets[i - 1] == run.a && g.b_offsets[i] - g.b_offsets[i - 1] == run.b && g.c_offsets[i] - g.c_offsets[i - 1] == run.c;
  };
  while (run.length < n && follows(run.length)) ++run.length;
  // Every further run must be as long and as regular; else entries go one by one.
  bool regular = n % run.length == 0;
  for (int64_t i = run.length; i < n && regular; ++i) regular = i % run.length == 0 || follows(i);
  if (!regular) return {};
  return run;
}

// The greatest power of two up to exec::kArgumentAlignment that divides all distances (in elements).
unsigned alignment_of(const exec::GemmCommand& g, const Run& run) {
  const int64_t bytes = bytes_of(g.element);
  uint64_t all = exec::kArgumentAlignment;
  for (const std::vector<int64_t>* offsets : {&g.a_offsets, &g.b_offsets, &g.c_offsets})
    for (int64_t offset : *offsets) all |= static_cast<uint64_t>(offset * bytes);
  for (int64_t distance : {run.a, run.b, run.c}) all |= static_cast<uint64_t>(distance * bytes);
  return 1u << std::countr_zero(all);
}

StepArg scratch(const HeavyContext& context, size_t bytes) { return {{nullptr, (*context.temporaries)++}, static_cast<int64_t>(bytes), true, false}; }

// Kernels that look at each of `n` values and note the first bad one: its place in report[0], and its value in report[1].
std::vector<runtime::cuda::Kernel> check_kernels(runtime::Device& device, const std::string& type, const std::string& bad) {
  const std::string head = "extern \"C\" __global__ void ";
  const std::string find = "(const " + type + "* values, int64_t n, int64_t low, int64_t high, unsigned long long* report) {\n" +
                           "for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {\n" + "const " +
                           type + " x = values[i];\nif (" + bad + ") atomicMin(report, (unsigned long long)i);\n}\n}\n";
  const std::string name = "check" + digest(find), read = "read" + digest(find);
  const std::string value = "(const " + type + "* values, unsigned long long* report) {\nif (report[0] != ~0ull) report[1] = (unsigned long long)(int64_t)" +
                            "values[report[0]];\n}\n";
  const codegen::cuda::KernelSource sources[] = {{name, head + name + find}, {read, head + read + value}};
  return load_kernels(device, sources);
}

// The condition for a bad index or a number that is not finite, and the C++ type that the values are read as.
struct Condition {
  std::string type, bad;
};

Condition index_condition(DType dtype) {
  THALWEG_CHECK(ir::is_integer(dtype) && codegen::has_scalar_type(dtype), Unsupported, "thalweg.check_index takes integers, not ", ir::name(dtype));
  const bool is_signed = ir::name(dtype)[0] != 'u';
  return {codegen::scalar_type(dtype), is_signed ? "(int64_t)x < low || (int64_t)x >= high" : "(unsigned long long)x >= (unsigned long long)high"};
}

Condition finite_condition(DType dtype) {
  auto all_ones = [](const std::string& exponent) { return "(x & " + exponent + ") == " + exponent; };
  switch (dtype) {
    case DType::BF16:
      return {"uint16_t", all_ones("0x7f80")};
    case DType::F16:
      return {"uint16_t", all_ones("0x7c00")};
    case DType::F32:
      return {"uint32_t", all_ones("0x7f800000u")};
    case DType::F64:
      return {"uint64_t", all_ones("0x7ff0000000000000ull")};
    default:
      raise(ErrorKind::Unsupported, "thalweg.check_finite takes floats, not ", ir::name(dtype));
  }
}

}  // namespace

void add_cuda_product(const ProductPlan& plan, const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  const exec::GemmCommand& g = plan.command;
  const Options& options = *context.options;
  const Run run = regular_run(g);
  ProductShape shape;
  shape.element = type_of(g.element), shape.tf32 = options.tf32 && g.element == exec::Element::F32;
  shape.wide_result = g.wide_result;
  shape.trans_a = g.trans_a, shape.trans_b = g.trans_b;
  shape.m = g.m, shape.n = g.n, shape.k = g.k, shape.lda = g.lda, shape.ldb = g.ldb, shape.ldc = g.ldc;
  shape.batch = run.length, shape.stride_a = run.a, shape.stride_b = run.b, shape.stride_c = run.c;
  std::shared_ptr<const Product> product = product_of(*options.device, shape, alignment_of(g, run), !options.deterministic);
  std::vector<std::array<int64_t, 3>> starts;  // bytes
  for (size_t i = 0; i < g.a_offsets.size(); i += static_cast<size_t>(run.length))
    starts.push_back({g.a_offsets[i] * bytes_of(g.element), g.b_offsets[i] * bytes_of(g.element), g.c_offsets[i] * (g.wide_result ? 4 : bytes_of(g.element))});
  Step step;
  step.name = product->description();
  step.library = true;
  step.args = {{{plan.lhs, -1}, plan.lhs->type.bytes(), false, false},
               {{plan.rhs, -1}, plan.rhs->type.bytes(), false, false},
               {{op.result(), -1}, op.result()->type.bytes(), true, false}};
  if (product->workspace_bytes() > 0) step.args.push_back(scratch(context, product->workspace_bytes()));
  step.device_call = [product, starts, scratch = product->workspace_bytes() > 0](void* const* args, void* native) {
    auto at = [&](size_t i, int64_t offset) { return static_cast<char*>(args[i]) + offset; };
    for (const auto& [a, b, c] : starts) product->run(at(0, a), at(1, b), at(2, c), scratch ? args[3] : nullptr, native);
  };
  steps.push_back(std::move(step));
}

void add_cuda_check(const ir::Op& op, const std::string& message, const HeavyContext& context, std::vector<Step>& steps) {
  runtime::Device& device = *context.options->device;
  const ir::Type& type = op.operand(0)->type;
  const bool index = op.attrs.string("call_target_name") == "thalweg.check_index";
  const Condition condition = index ? index_condition(type.dtype) : finite_condition(type.dtype);
  const ir::Attributes& config = config_of(op);
  const int64_t n = type.size(), low = index ? config.integer("low") : 0, high = index ? config.integer("high") : 0;
  const std::vector<runtime::cuda::Kernel> kernels = check_kernels(device, condition.type, condition.bad);
  runtime::cuda::LaunchShape shape;
  shape.block[0] = 256;
  shape.grid[0] = static_cast<unsigned>(std::clamp<int64_t>((n + 255) / 256, 1, 2 * runtime::cuda::properties(device).multiprocessors));
  Step step;
  step.name = op.attrs.string("call_target_name");
  step.fallible = true;
  step.args = {{{codegen::canonical(op.operand(0)), -1}, type.bytes(), false, false}, {{op.result(), -1}, 1, true, false}};
  step.device_call = [=, &device](void* const* args, void* native) {
    std::shared_ptr<char> memory = runtime::cuda::pinned_memory(device, 2 * sizeof(uint64_t));
    volatile uint64_t* const report = reinterpret_cast<volatile uint64_t*>(memory.get());
    report[0] = ~uint64_t{0};
    report[1] = 0;
    void* const at = memory.get();
    runtime::cuda::launch_with(kernels[0], shape, native, static_cast<const void*>(args[0]), n, low, high, at);
    runtime::cuda::launch_with(kernels[1], runtime::cuda::LaunchShape{}, native, static_cast<const void*>(args[0]), at);
    runtime::cuda::check(
        runtime::cuda::driver().fill_bytes(reinterpret_cast<runtime::cuda::DevicePtr>(args[1]), 1, 1, static_cast<runtime::cuda::StreamHandle>(native)),
        "fill memory");
    runtime::cuda::on_complete([=, kept = std::move(memory)] {
      if (report[0] == ~uint64_t{0}) return;
      if (!index) raise(ErrorKind::NotFinite, message);
      raise(ErrorKind::Index, message, "; index ", static_cast<int64_t>(report[1]), " is out of range [", low, ", ", high, ")");
    });
  };
  steps.push_back(std::move(step));
}

}  // namespace thalweg::compiler
