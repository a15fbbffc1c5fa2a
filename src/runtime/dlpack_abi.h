// The binary interface of DLPack, declared anew from its specification (version 1.3): how array libraries hand memory to each other.
#pragma once

#include <cstdint>

namespace thalweg::runtime::dlpack {

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 3;  // what we write

// Where memory lives.
enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11, kCudaManaged = 13 };

// A device of a machine.
struct DeviceId {
  int32_t type = kCpu;
  int32_t index = 0;
};

// What an element is.
enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8_e3m4 = 7,
  kFloat8_e4m3 = 8,
  kFloat8_e4m3b11fnuz = 9,
  kFloat8_e4m3fn = 10,
  kFloat8_e4m3fnuz = 11,
  kFloat8_e5m2 = 12,
  kFloat8_e5m2fnuz = 13,
  kFloat8_e8m0fnu = 14,
  kFloat6_e2m3fn = 15,
  kFloat6_e3m2fn = 16,
  kFloat4_e2m1fn = 17,
};

// An element type: `lanes` values of `bits` bits each.
struct DataType {
  uint8_t code = kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;
};

// A strided array. Strides count elements; null: row-major (before version 1.2).
struct Tensor {
  void* data;
  DeviceId device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// An array with its owner, as exchanged before version 1.0.
struct ManagedTensor {
  Tensor tensor;
  void* owner;
  void (*deleter)(ManagedTensor* self);
};

// Flags of ManagedTensorVersioned.
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2, kSubBytePadded = 4;

// An array with its owner and the version of the interface that it was made for. Of a strange major version only `version`, `owner` and `deleter` may be
// touched.
struct ManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void* owner;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;
  Tensor tensor;
};

// The part of a table of functions that every version has.
struct ExchangeHeader {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeHeader* previous;  // the table of an older major version; may be null
};

// What a library's array type offers to C code: the capsule "dlpack_exchange_api" in its attribute __dlpack_c_exchange_api__. Objects are PyObject*; the
// caller holds Python's lock. Every function returns 0, or -1 with a Python exception set; none waits for or orders streams.
struct ExchangeApi {
  ExchangeHeader header;
  // A new array of the prototype's device, type and shape. Errors go to `set_error` instead of Python.
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context, void (*set_error)(void* context, const char* kind, const char* text));
  int (*to_managed)(void* object, ManagedTensorVersioned** out);
  int (*from_managed)(ManagedTensorVersioned* managed, void** out);  // takes the array over
  int (*to_tensor)(void* object, Tensor* out);                       // borrowed until the caller returns to Python; may be null
  int (*current_work_stream)(DeviceType type, int32_t index, void** out);
};

static_assert(sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64 && sizeof(ManagedTensorVersioned) == 80, "the interface is fixed");

}  // namespace thalweg::runtime::dlpack
