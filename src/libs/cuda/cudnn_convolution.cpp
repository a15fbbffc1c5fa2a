// From shapes to one operation.
#include "libs/cuda/cudnn_convolution.h"

#include "support/error.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

std::string joined(const Dims& dims) {
  std::string out;
  for (int64_t d : dims) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out;
}

std::string text_of(const ConvolutionShape& s) {
  const char* const kinds[] = {"convolution", "convolution's data gradient", "convolution's filter gradient"};
  const std::string type = s.element == Type::BF16 ? "bf16" : s.element == Type::F16 ? "f16" : s.element == Type::F64 ? "f64" : "f32";
  return std::string(kinds[static_cast<int>(s.kind)]) + " " + type + ", x " + joined(s.x) + " (" + joined(s.x_strides) + "), w " + joined(s.w) + " (" +
         joined(s.w_strides) + "), y " + joined(s.y) + " (" + joined(s.y_strides) + "), stride " + joined(s.stride) + ", padding " + joined(s.before) +
         " and " + joined(s.after) + ", dilation " + joined(s.dilation);
}

// The library has no convolution over a line: it gets a second dim of space, of 1.
ConvolutionShape at_least_plane(ConvolutionShape s) {
  if (s.stride.size() != 1) return s;
  for (Dims* dims : {&s.x, &s.w, &s.y, &s.stride, &s.dilation}) dims->insert(dims->end() - 1, 1);
  for (Dims* dims : {&s.before, &s.after}) dims->insert(dims->end() - 1, 0);
  for (auto [dims, strides] : {std::pair{&s.x, &s.x_strides}, {&s.w, &s.w_strides}, {&s.y, &s.y_strides}})
    strides->insert(strides->end() - 1, strides->back() * dims->back());
  return s;
}

struct Places {
  Kind kind;
  Attribute convolution, x, w, y, alpha, beta;
};

Places places_of(ConvolutionShape::Kind kind) {
  switch (kind) {
    case ConvolutionShape::Kind::DataGrad:
      return {Kind::ConvolutionDataGrad, Attribute::DataGradConvolution, Attribute::DataGradDx,  Attribute::DataGradW,
              Attribute::DataGradDy,     Attribute::DataGradAlpha,       Attribute::DataGradBeta};
    case ConvolutionShape::Kind::FilterGrad:
      return {Kind::ConvolutionFilterGrad, Attribute::FilterGradConvolution, Attribute::FilterGradX,   Attribute::FilterGradDw,
              Attribute::FilterGradDy,     Attribute::FilterGradAlpha,       Attribute::FilterGradBeta};
    case ConvolutionShape::Kind::Forward:
      break;
  }
  return {Kind::ConvolutionForward, Attribute::ForwardConvolution, Attribute::ForwardX,   Attribute::ForwardW,
          Attribute::ForwardY,      Attribute::ForwardAlpha,       Attribute::ForwardBeta};
}

}  // namespace

std::shared_ptr<const Graph> convolution_graph(const ConvolutionShape& shape) {
  const ConvolutionShape s = at_least_plane(shape);
  const Type precision = s.element == Type::F64 ? Type::F64 : Type::F32;
  auto graph = std::make_shared<Graph>();
  graph->text = text_of(shape);
  try {
    Descriptor how(Kind::Convolution);
    how.set(Attribute::ConvolutionPrecision, precision);
    how.set(Attribute::ConvolutionMode, ValueType::ConvolutionMode, 1, &kCrossCorrelation);
    how.set(Attribute::ConvolutionSpatialDims, static_cast<int64_t>(s.stride.size()));
    how.set(Attribute::ConvolutionStrides, s.stride);
    how.set(Attribute::ConvolutionDilations, s.dilation);
    how.set(Attribute::ConvolutionPaddingsBefore, s.before);
    how.set(Attribute::ConvolutionPaddingsAfter, s.after);
    how.finalize();
    const Places places = places_of(s.kind);
    Descriptor op(places.kind);
    op.set(places.convolution, graph->keep(std::move(how)));
    op.set(places.x, *graph->memory(kConvolutionX, s.element, s.x, s.x_strides).descriptor);
    op.set(places.w, *graph->memory(kConvolutionW, s.element, s.w, s.w_strides).descriptor);
    op.set(places.y, *graph->memory(kConvolutionY, s.element, s.y, s.y_strides).descriptor);
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = precision == Type::F64;
    const ValueType type = wide ? ValueType::Double : ValueType::Float;
    op.set(places.alpha, type, 1, wide ? static_cast<const void*>(&wide_one) : &one);
    op.set(places.beta, type, 1, wide ? static_cast<const void*>(&wide_zero) : &zero);
    op.finalize();
    graph->add(std::move(op));
  } catch (const Error& error) {
    raise(error.kind(), error.what(), "; ", graph->text);
  }
  return graph;
}

}  // namespace thalweg::libs::cuda::cudnn
