// Convolutions as products: random windows, layouts and padding, against the interpreter's own convolution, on integers so that sums are exact.
#include "passes/convolutions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "interp/interpreter.h"
#include "ir/builder.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace thalweg::passes {
namespace {

using ir::Dims;
using ir::DType;
using ir::OpCode;

constexpr uint32_t kSeed = 4242;

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  // Where batch, feature and the spatial dims stand.
  Dims layout(size_t rank) {
    Dims dims(rank);
    std::iota(dims.begin(), dims.end(), int64_t{0});
    std::shuffle(dims.begin(), dims.end(), random_);
    return dims;
  }
  ir::Literal integers(const ir::Type& type) {
    ir::Literal literal(type);
    for (int64_t i = 0; i < type.size(); ++i)
      ir::store_double(type.dtype, literal.data.data() + i * ir::byte_size(type.dtype), static_cast<double>((*this)(-3, 3)));
    return literal;
  }

 private:
  std::mt19937 random_;
};

struct Program {
  ir::Function function;
  std::vector<ir::Literal> inputs;

  std::vector<ir::Literal> run() const { return interp::run(function, inputs); }
  int count(OpCode code) const {
    return static_cast<int>(std::count_if(function.body.ops.begin(), function.body.ops.end(), [&](const auto& op) { return op->code == code; }));
  }
};

struct Shape {
  int64_t batch, channels, features;
  ir::ConvDims dims;
  Dims input_spatial, kernel_spatial;
};

Program program_of(Draw& draw, const Shape& shape) {
  const size_t rank = shape.input_spatial.size() + 2;
  auto dims_of = [&](int64_t first_at, int64_t first, int64_t second_at, int64_t second, const Dims& spatial_at, const Dims& spatial) {
    Dims dims(rank);
    dims[static_cast<size_t>(first_at)] = first, dims[static_cast<size_t>(second_at)] = second;
    for (size_t s = 0; s < spatial.size(); ++s) dims[static_cast<size_t>(spatial_at[s])] = spatial[s];
    return dims;
  };
  const ir::ConvDims& d = shape.dims;
  const ir::Type input = ir::tensor(DType::F32, dims_of(d.input_batch, shape.batch, d.input_feature, shape.channels, d.input_spatial, shape.input_spatial));
  const ir::Type kernel =
      ir::tensor(DType::F32, dims_of(d.kernel_output, shape.features, d.kernel_input, shape.channels, d.kernel_spatial, shape.kernel_spatial));
  Program program;
  program.function.name = "main";
  ir::Value *x = program.function.body.add_arg(input), *w = program.function.body.add_arg(kernel);
  ir::Builder builder(program.function.body);
  builder.ret({builder.convolution(x, w, d)});
  program.inputs = {draw.integers(input), draw.integers(kernel)};
  return program;
}

ir::ConvDims numbers(Draw& draw, size_t spatial) {
  const Dims in = draw.layout(spatial + 2), kernel = draw.layout(spatial + 2), out = draw.layout(spatial + 2);
  const auto rest = [](const Dims& dims) { return Dims(dims.begin() + 2, dims.end()); };
  const Dims ones(spatial, 1), zeros(spatial, 0);
  return {in[0], in[1], rest(in), kernel[0], kernel[1], rest(kernel), out[0], out[1], rest(out), ones, zeros, zeros, ones, ones};
}

void expect_same(const std::vector<ir::Literal>& want, const Program& program, uint32_t seed) {
  ir::verify(program.function);
  const std::vector<ir::Literal> got = program.run();
  ASSERT_EQ(got[0].type, want[0].type);
  EXPECT_EQ(got[0].data, want[0].data) << "seed " << seed << "\n" << ir::print(program.function);
}

TEST(Convolutions, PatchesAndPointsBecomeProducts) {
  for (uint32_t seed = kSeed; seed < kSeed + 60; ++seed) {
    Draw draw(seed);
    const size_t spatial = static_cast<size_t>(draw(1, 3));
    Shape shape{draw(1, 3), draw(1, 3), draw(1, 4), numbers(draw, spatial), {}, {}};
    for (size_t s = 0; s < spatial; ++s) {
      const int64_t positions = draw(1, 3), places = draw(1, 3);
      int64_t reach = 0;
      if (draw(0, 1)) {
        shape.dims.stride[s] = places + draw(0, 1), reach = (positions - 1) * shape.dims.stride[s] + places;
      } else {
        shape.dims.rhs_dilation[s] = positions + draw(0, 1), reach = (places - 1) * shape.dims.rhs_dilation[s] + positions;
      }
      shape.dims.pad_low[s] = draw(-1, 1), shape.dims.pad_high[s] = draw(-1, 1);
      shape.dims.reversal.push_back(draw(0, 1) != 0);
      shape.kernel_spatial.push_back(places);
      if (reach <= shape.dims.pad_low[s] + shape.dims.pad_high[s]) shape.dims.pad_low[s] = shape.dims.pad_high[s] = 0;
      shape.input_spatial.push_back(reach - shape.dims.pad_low[s] - shape.dims.pad_high[s]);
    }
    Program program = program_of(draw, shape);
    const auto want = program.run();
    ASSERT_TRUE(disjoint_convolutions(program.function)) << "seed " << seed << "\n" << ir::print(program.function);
    EXPECT_EQ(program.count(OpCode::DotGeneral), 1);
    EXPECT_EQ(program.count(OpCode::Convolution) + program.count(OpCode::Gather), 0);
    expect_same(want, program, seed);
  }
}

TEST(Convolutions, OverlappingWindowsAreUnfoldedWhenTheyAreLarge) {
  for (uint32_t seed = kSeed; seed < kSeed + 12; ++seed) {
    Draw draw(seed);
    Shape shape{2, 16, 64, numbers(draw, 2), {9, 10}, {3, draw(2, 3)}};
    for (size_t s = 0; s < 2; ++s) {
      shape.dims.stride[s] = s == 0 ? draw(1, 2) : 1, shape.dims.rhs_dilation[s] = draw(1, 2), shape.dims.lhs_dilation[s] = draw(1, 2);
      shape.dims.pad_low[s] = draw(0, 2), shape.dims.pad_high[s] = draw(0, 2);
      shape.dims.reversal.push_back(draw(0, 1) != 0);
    }
    Program program = program_of(draw, shape);
    const auto want = program.run();
    EXPECT_FALSE(disjoint_convolutions(program.function));
    ASSERT_TRUE(unfold_convolutions(program.function));
    EXPECT_EQ(program.count(OpCode::Convolution), 0);
    expect_same(want, program, seed);
  }
}

TEST(Convolutions, GroupsAndSmallOverlapsStay) {
  Draw draw(kSeed);
  Shape small{1, 1, 1, {0, 1, {2}, 0, 1, {2}, 0, 1, {2}, {1}, {1}, {1}, {1}, {1}}, {5}, {3}};
  Program program = program_of(draw, small);
  EXPECT_FALSE(unfold_convolutions(program.function));
  ir::Function grouped;
  ir::Value *x = grouped.body.add_arg(ir::tensor(DType::F32, {1, 4, 1})), *w = grouped.body.add_arg(ir::tensor(DType::F32, {4, 2, 1}));
  ir::Builder b(grouped.body);
  ir::ConvDims dims = small.dims;
  dims.pad_low = dims.pad_high = {0}, dims.feature_groups = 2;
  b.ret({b.convolution(x, w, dims)});
  EXPECT_FALSE(disjoint_convolutions(grouped));
}

}  // namespace
}  // namespace thalweg::passes
