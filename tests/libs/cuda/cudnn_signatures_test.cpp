// Our declarations of cuDNN against NVIDIA's header, on machines that have it.
#if __has_include(<cudnn_graph.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn_graph.h>

#include <type_traits>

#include "libs/cuda/cudnn_functions.h"
#include "libs/cuda/cudnn_types.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

template <class Ours, class Theirs>
constexpr bool same_kind() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
}

template <class... Ours, class... Theirs>
constexpr bool same(int (*)(Ours...), cudnnStatus_t (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (same_kind<Ours, Theirs>() && ...);
  }
}

#define SAME(name, theirs) static_assert(same(decltype(Functions::name){}, static_cast<decltype(&::theirs)>(nullptr)), #name)
SAME(create, cudnnCreate);
SAME(set_stream, cudnnSetStream);
SAME(make_descriptor, cudnnBackendCreateDescriptor);
SAME(destroy_descriptor, cudnnBackendDestroyDescriptor);
SAME(finalize, cudnnBackendFinalize);
SAME(set_attribute, cudnnBackendSetAttribute);
SAME(get_attribute, cudnnBackendGetAttribute);
SAME(execute, cudnnBackendExecute);
#undef SAME

#define EQUAL(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
EQUAL(Type::F32, CUDNN_DATA_FLOAT);
EQUAL(Type::F64, CUDNN_DATA_DOUBLE);
EQUAL(Type::F16, CUDNN_DATA_HALF);
EQUAL(Type::S32, CUDNN_DATA_INT32);
EQUAL(Type::BF16, CUDNN_DATA_BFLOAT16);
EQUAL(Type::Bool, CUDNN_DATA_BOOLEAN);
EQUAL(Pointwise::Add, CUDNN_POINTWISE_ADD);
EQUAL(Pointwise::Mul, CUDNN_POINTWISE_MUL);
EQUAL(Pointwise::Div, CUDNN_POINTWISE_DIV);
EQUAL(Pointwise::Sub, CUDNN_POINTWISE_SUB);
EQUAL(Pointwise::Exp, CUDNN_POINTWISE_EXP);
EQUAL(Pointwise::Log, CUDNN_POINTWISE_LOG);
EQUAL(Pointwise::Identity, CUDNN_POINTWISE_IDENTITY);
EQUAL(Pointwise::GreaterEqual, CUDNN_POINTWISE_CMP_GE);
EQUAL(Pointwise::Index, CUDNN_POINTWISE_GEN_INDEX);
EQUAL(Pointwise::Select, CUDNN_POINTWISE_BINARY_SELECT);
EQUAL(Reduction::Sum, CUDNN_REDUCE_TENSOR_ADD);
EQUAL(Reduction::Max, CUDNN_REDUCE_TENSOR_MAX);
EQUAL(Kind::Pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
EQUAL(Kind::Convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
EQUAL(Kind::Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
EQUAL(Kind::Configuration, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
EQUAL(Kind::Heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
EQUAL(Kind::Plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
EQUAL(Kind::ConvolutionForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
EQUAL(Kind::ConvolutionFilterGrad, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
EQUAL(Kind::ConvolutionDataGrad, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
EQUAL(Kind::PointwiseOp, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
EQUAL(Kind::Graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
EQUAL(Kind::Arguments, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
EQUAL(Kind::Tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
EQUAL(Kind::Matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
EQUAL(Kind::MatmulOp, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
EQUAL(Kind::Reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
EQUAL(Kind::ReductionOp, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
EQUAL(Kind::ReshapeOp, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
EQUAL(ValueType::Handle, CUDNN_TYPE_HANDLE);
EQUAL(ValueType::DataType, CUDNN_TYPE_DATA_TYPE);
EQUAL(ValueType::Flag, CUDNN_TYPE_BOOLEAN);
EQUAL(ValueType::Int64, CUDNN_TYPE_INT64);
EQUAL(ValueType::Float, CUDNN_TYPE_FLOAT);
EQUAL(ValueType::Double, CUDNN_TYPE_DOUBLE);
EQUAL(ValueType::Pointer, CUDNN_TYPE_VOID_PTR);
EQUAL(ValueType::ConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
EQUAL(ValueType::HeuristicsMode, CUDNN_TYPE_HEUR_MODE);
EQUAL(ValueType::NumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
EQUAL(ValueType::PointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
EQUAL(ValueType::Descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
EQUAL(ValueType::ReductionMode, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
EQUAL(ValueType::Char, CUDNN_TYPE_CHAR);
EQUAL(Attribute::PointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
EQUAL(Attribute::PointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
EQUAL(Attribute::PointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
EQUAL(Attribute::ConvolutionPrecision, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
EQUAL(Attribute::ConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
EQUAL(Attribute::ConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
EQUAL(Attribute::ConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
EQUAL(Attribute::ConvolutionPaddingsAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
EQUAL(Attribute::ConvolutionPaddingsBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
EQUAL(Attribute::ConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
EQUAL(Attribute::HeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
EQUAL(Attribute::HeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
EQUAL(Attribute::HeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
EQUAL(Attribute::ConfigurationEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
EQUAL(Attribute::PlanHandle, 400);  // deprecated names
EQUAL(Attribute::GraphHandle, 800);
EQUAL(Attribute::PlanConfiguration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
EQUAL(Attribute::PlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
EQUAL(Attribute::ForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
EQUAL(Attribute::ForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
EQUAL(Attribute::ForwardConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
EQUAL(Attribute::ForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
EQUAL(Attribute::ForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
EQUAL(Attribute::ForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
EQUAL(Attribute::DataGradAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
EQUAL(Attribute::DataGradBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
EQUAL(Attribute::DataGradConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
EQUAL(Attribute::DataGradW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
EQUAL(Attribute::DataGradDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
EQUAL(Attribute::DataGradDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
EQUAL(Attribute::FilterGradAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
EQUAL(Attribute::FilterGradBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
EQUAL(Attribute::FilterGradConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
EQUAL(Attribute::FilterGradDw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
EQUAL(Attribute::FilterGradX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
EQUAL(Attribute::FilterGradDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
EQUAL(Attribute::PointwiseOpMode, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
EQUAL(Attribute::PointwiseOpX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
EQUAL(Attribute::PointwiseOpB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
EQUAL(Attribute::PointwiseOpY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
EQUAL(Attribute::PointwiseOpT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
EQUAL(Attribute::GraphOps, CUDNN_ATTR_OPERATIONGRAPH_OPS);
EQUAL(Attribute::TensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
EQUAL(Attribute::TensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
EQUAL(Attribute::TensorDims, CUDNN_ATTR_TENSOR_DIMENSIONS);
EQUAL(Attribute::TensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
EQUAL(Attribute::TensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
EQUAL(Attribute::TensorIsInner, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
EQUAL(Attribute::TensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
EQUAL(Attribute::ArgumentIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
EQUAL(Attribute::ArgumentPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
EQUAL(Attribute::ArgumentWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
EQUAL(Attribute::EngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
EQUAL(Attribute::MatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE);
EQUAL(Attribute::MatmulOpA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
EQUAL(Attribute::MatmulOpB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
EQUAL(Attribute::MatmulOpC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
EQUAL(Attribute::MatmulOpMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC);
EQUAL(Attribute::ReductionMode, CUDNN_ATTR_REDUCTION_OPERATOR);
EQUAL(Attribute::ReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE);
EQUAL(Attribute::ReductionOpX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
EQUAL(Attribute::ReductionOpY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
EQUAL(Attribute::ReductionOpReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
EQUAL(Attribute::ReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
EQUAL(Attribute::ReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
#if CUDNN_VERSION >= 90800
EQUAL(Kind::Gpu, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
EQUAL(Attribute::HeuristicsGpu, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
EQUAL(Attribute::PlanGpu, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
EQUAL(Attribute::GpuJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
#endif
EQUAL(kCrossCorrelation, CUDNN_CROSS_CORRELATION);
EQUAL(kHeuristicsFallback, CUDNN_HEUR_MODE_FALLBACK);
EQUAL(kHeuristicsBest, CUDNN_HEUR_MODE_A);
EQUAL(kNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
EQUAL(kNoteDownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
EQUAL(kNoteReducedSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
EQUAL(kNoteFourier, CUDNN_NUMERICAL_NOTE_FFT);
EQUAL(kNoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
EQUAL(kNoteWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
static_assert(kNotes >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
#undef EQUAL

}  // namespace
}  // namespace thalweg::libs::cuda::cudnn
#endif
