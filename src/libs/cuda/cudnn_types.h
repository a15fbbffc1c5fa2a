// The few numbers of cuDNN's graph interface that Thalweg uses, declared here so that no cuDNN header is needed to build.
#pragma once

namespace thalweg::libs::cuda::cudnn {

// Elements of tensors and the precision of arithmetic (cudnnDataType_t).
enum class Type : int { F32 = 0, F64 = 1, F16 = 2, S32 = 4, BF16 = 9, Bool = 11 };

// What a pointwise operation computes (cudnnPointwiseMode_t).
enum class Pointwise : int { Add = 0, Mul = 1, Div = 6, Sub = 9, Exp = 13, Log = 15, Identity = 21, GreaterEqual = 303, Index = 501, Select = 601 };

// cudnnReduceTensorOp_t.
enum class Reduction : int { Sum = 0, Max = 3 };

// Kinds of descriptors (cudnnBackendDescriptorType_t).
enum class Kind : int {
  Pointwise = 0,
  Convolution = 1,
  Engine = 2,
  Configuration = 3,
  Heuristics = 4,
  Plan = 5,
  ConvolutionForward = 10,
  ConvolutionFilterGrad = 11,
  ConvolutionDataGrad = 12,
  PointwiseOp = 13,
  Graph = 15,
  Arguments = 16,
  Tensor = 17,
  Matmul = 18,
  MatmulOp = 19,
  Reduction = 21,
  ReductionOp = 22,
  ReshapeOp = 31,
  Gpu = 38,
};

// Types of attributes' values (cudnnBackendAttributeType_t).
enum class ValueType : int {
  Handle = 0,
  DataType = 1,
  Flag = 2,
  Int64 = 3,
  Float = 4,
  Double = 5,
  Pointer = 6,
  ConvolutionMode = 7,
  HeuristicsMode = 8,
  NumericalNote = 11,
  PointwiseMode = 14,
  Descriptor = 15,
  ReductionMode = 18,
  Char = 24,
};

// Attributes (cudnnBackendAttributeName_t).
enum class Attribute : int {
  PointwiseMode = 0,
  PointwisePrecision = 1,
  PointwiseAxis = 9,
  ConvolutionPrecision = 100,
  ConvolutionMode = 101,
  ConvolutionDilations = 102,
  ConvolutionStrides = 103,
  ConvolutionPaddingsAfter = 104,
  ConvolutionPaddingsBefore = 105,
  ConvolutionSpatialDims = 106,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  HeuristicsGpu = 204,
  ConfigurationEngine = 300,
  PlanHandle = 400,
  PlanConfiguration = 401,
  PlanWorkspaceBytes = 402,
  PlanGpu = 407,
  ForwardAlpha = 700,
  ForwardBeta = 701,
  ForwardConvolution = 702,
  ForwardW = 703,
  ForwardX = 704,
  ForwardY = 705,
  DataGradAlpha = 706,
  DataGradBeta = 707,
  DataGradConvolution = 708,
  DataGradW = 709,
  DataGradDx = 710,
  DataGradDy = 711,
  FilterGradAlpha = 712,
  FilterGradBeta = 713,
  FilterGradConvolution = 714,
  FilterGradDw = 715,
  FilterGradX = 716,
  FilterGradDy = 717,
  PointwiseOpMode = 750,
  PointwiseOpX = 751,
  PointwiseOpB = 752,
  PointwiseOpY = 753,
  PointwiseOpT = 758,
  GraphHandle = 800,
  GraphOps = 801,
  TensorAlignment = 900,
  TensorType = 901,
  TensorDims = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsInner = 907,
  TensorIsByValue = 908,
  ArgumentIds = 1000,
  ArgumentPointers = 1001,
  ArgumentWorkspace = 1003,
  EngineNotes = 1303,
  MatmulPrecision = 1500,
  MatmulOpA = 1520,
  MatmulOpB = 1521,
  MatmulOpC = 1522,
  MatmulOpMatmul = 1523,
  ReductionMode = 1600,
  ReductionPrecision = 1601,
  ReductionOpX = 1610,
  ReductionOpY = 1611,
  ReductionOpReduction = 1612,
  ReshapeX = 2200,
  ReshapeY = 2201,
  GpuJson = 2702,
};

inline constexpr int kCrossCorrelation = 1;
inline constexpr int kHeuristicsFallback = 2, kHeuristicsBest = 3;
// What engines say of their numbers (cudnnBackendNumericalNote_t).
inline constexpr int kNoteTensorCore = 0, kNoteDownConverts = 1, kNoteReducedSums = 2, kNoteFourier = 3, kNoteNondeterministic = 4, kNoteWinograd = 5,
                     kNotes = 10;

}  // namespace thalweg::libs::cuda::cudnn
