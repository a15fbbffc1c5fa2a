// Space to depth.
#include "compiler/few_channels.h"

#include <algorithm>

namespace thalweg::compiler {
namespace {

using ir::Dims;
using ir::Value;

constexpr int64_t kEight = 8, kMostFolded = 64;

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// One dim of space. Place i of the result reads from stride · i - padding on; with `front` zeros before the weights that is a whole number of blocks.
struct Space {
  int64_t stride, padding, window, image, places;
  int64_t front() const { return (stride - padding % stride) % stride; }
  int64_t taps() const { return rounded_up(window + front(), stride) / stride; }  // blocks that a place reads
  int64_t blocks() const { return places + taps() - 1; }                          // of the image
};

// The folding of one call's tensors.
class Folder {
 public:
  Folder(const Dims& x, const Dims& w, const Dims& y, const ir::Attributes& config) : channels_(x[1]), window_{w[2], w[3]} {
    for (size_t d = 0; d < 2; ++d) space_[d] = {config.ints("stride")[d], config.ints("padding")[d], w[d + 2], x[d + 2], y[d + 2]};
  }

  int64_t depth() const { return channels_ * space_[0].stride * space_[1].stride; }
  int64_t padded_depth() const { return rounded_up(depth(), kEight); }
  Dims window() const { return {space_[0].taps(), space_[1].taps()}; }

  Value* image(ir::Builder& b, Value* x) const {
    Dims low(4, 0), high(4, 0);
    for (size_t d = 0; d < 2; ++d) {
      const Space& s = space_[d];
      low[d + 2] = s.padding + s.front();
      high[d + 2] = s.stride * s.blocks() - s.image - low[d + 2];
    }
    return folded(b, padded(b, x, low, high), {space_[0].blocks(), space_[1].blocks()});
  }
  Value* weights(ir::Builder& b, Value* w) const {
    Dims low(4, 0), high(4, 0);
    for (size_t d = 0; d < 2; ++d) {
      low[d + 2] = space_[d].front();
      high[d + 2] = space_[d].stride * space_[d].taps() - space_[d].window - low[d + 2];
    }
    return folded(b, padded(b, w, low, high), window());
  }
  // The weights' gradient from that of folded weights, [outputs, depth, taps, taps].
  Value* unfolded(ir::Builder& b, Value* dw) const {
    const int64_t outputs = dw->type.dims[0], sh = space_[0].stride, sw = space_[1].stride;
    const Dims taps = window();
    Value* real = b.slice(dw, Dims(4, 0), {outputs, depth(), taps[0], taps[1]}, Dims(4, 1));
    Value* split = b.transpose(b.reshape(real, {outputs, sh, sw, channels_, taps[0], taps[1]}), {0, 3, 4, 1, 5, 2});
    Value* whole = b.reshape(split, {outputs, channels_, taps[0] * sh, taps[1] * sw});
    Dims start(4, 0), limit = whole->type.dims;
    for (size_t d = 0; d < 2; ++d) start[d + 2] = space_[d].front(), limit[d + 2] = start[d + 2] + window_[d];
    return b.slice(whole, start, limit, Dims(4, 1));
  }

 private:
  static Value* padded(ir::Builder& b, Value* x, const Dims& low, const Dims& high) {
    auto is_zero = [](int64_t n) { return n == 0; };
    if (std::all_of(low.begin(), low.end(), is_zero) && std::all_of(high.begin(), high.end(), is_zero)) return x;
    return b.pad(x, b.splat(ir::tensor(x->type.dtype), 0), low, high, Dims(low.size(), 0));
  }
  // [n, channels, blocks · stride, …] as [n, depth, blocks, …] with the depth last in memory.
  Value* folded(ir::Builder& b, Value* x, const Dims& blocks) const {
    const int64_t n = x->type.dims[0], sh = space_[0].stride, sw = space_[1].stride;
    Value* split = b.transpose(b.reshape(x, {n, channels_, blocks[0], sh, blocks[1], sw}), {0, 2, 4, 3, 5, 1});
    Value* deep = b.reshape(split, {n, blocks[0], blocks[1], depth()});
    return b.transpose(padded(b, deep, Dims(4, 0), {0, 0, 0, padded_depth() - depth()}), {0, 3, 1, 2});
  }

  int64_t channels_;
  Dims window_;
  Space space_[2];
};

}  // namespace

std::optional<FoldedConvolution> fold_few_channels(ir::Builder& b, const ir::Op& call, FoldedImages& images) {
  const ir::Attributes& config = call.attrs.dict("backend_config");
  const bool forward = config.string("mode") == "forward";
  if ((!forward && config.string("mode") != "weight_grad") || config.boolean("transposed", false) || config.integer("groups") != 1) return {};
  Value *x = call.operands[forward ? 0 : 1], *other = call.operands[forward ? 1 : 0];
  const ir::Type& result = call.result()->type;
  const Dims &w = forward ? other->type.dims : result.dims, &y = forward ? result.dims : other->type.dims, &dilation = config.ints("dilation");
  if (x->type.rank() != 4 || x->type.dims[1] >= kEight || std::any_of(dilation.begin(), dilation.end(), [](int64_t n) { return n != 1; })) return {};
  const Folder folder(x->type.dims, w, y, config);
  if (folder.depth() > kMostFolded) return {};
  ir::Dims shape = config.ints("stride");
  for (const Dims* more : {&config.ints("padding"), &w}) shape.insert(shape.end(), more->begin(), more->end());
  Value*& image = images[{x, shape, y}];
  if (!image) image = folder.image(b, x);
  FoldedConvolution folded;
  folded.config = config;
  folded.config.set("stride", Dims{1, 1}), folded.config.set("padding", Dims{0, 0});
  folded.result = result;
  if (forward) {
    folded.operands = {image, folder.weights(b, other)};
    folded.back = [](ir::Builder&, Value* made) { return made; };
  } else {
    const Dims taps = folder.window();
    folded.operands = {other, image};
    folded.result.dims = {w[0], folder.padded_depth(), taps[0], taps[1]};
    folded.back = [folder](ir::Builder& builder, Value* made) { return folder.unfolded(builder, made); };
  }
  return folded;
}

}  // namespace thalweg::compiler
