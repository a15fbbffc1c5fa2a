// Device tensors in DLPack's terms: element types, lending and borrowing.
#include "aten/dlpack.h"

#include "aten/backend_key.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "aten/torch_cuda.h"
#include "lazy/session.h"
#include "runtime/dlpack.h"

namespace thalweg::aten {
namespace {

namespace dl = runtime::dlpack;
using c10::ScalarType;

struct TypePair {
  ScalarType torch;
  dl::DataType theirs;
};

constexpr TypePair kTypes[] = {
    {ScalarType::Bool, {dl::kBool, 8, 1}},
    {ScalarType::Byte, {dl::kUInt, 8, 1}},
    {ScalarType::UInt16, {dl::kUInt, 16, 1}},
    {ScalarType::UInt32, {dl::kUInt, 32, 1}},
    {ScalarType::UInt64, {dl::kUInt, 64, 1}},
    {ScalarType::Char, {dl::kInt, 8, 1}},
    {ScalarType::Short, {dl::kInt, 16, 1}},
    {ScalarType::Int, {dl::kInt, 32, 1}},
    {ScalarType::Long, {dl::kInt, 64, 1}},
    {ScalarType::Half, {dl::kFloat, 16, 1}},
    {ScalarType::Float, {dl::kFloat, 32, 1}},
    {ScalarType::Double, {dl::kFloat, 64, 1}},
    {ScalarType::BFloat16, {dl::kBfloat, 16, 1}},
    {ScalarType::ComplexFloat, {dl::kComplex, 64, 1}},
    {ScalarType::ComplexDouble, {dl::kComplex, 128, 1}},
    {ScalarType::Float8_e5m2, {dl::kFloat8_e5m2, 8, 1}},
    {ScalarType::Float8_e5m2fnuz, {dl::kFloat8_e5m2fnuz, 8, 1}},
    {ScalarType::Float8_e4m3fn, {dl::kFloat8_e4m3fn, 8, 1}},
    {ScalarType::Float8_e4m3fnuz, {dl::kFloat8_e4m3fnuz, 8, 1}},
    {ScalarType::Float8_e8m0fnu, {dl::kFloat8_e8m0fnu, 8, 1}},
};

dl::DataType type_of(ScalarType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.torch == type) return pair.theirs;
  }
  C10_THROW_ERROR(BufferError, c10::str("DLPack has no element type for ", type, ": view the tensor as an integer type"));
}

ScalarType type_of(const dl::DataType& type) {
  for (const TypePair& pair : kTypes) {
    if (pair.theirs.code == type.code && pair.theirs.bits == type.bits) return pair.torch;
  }
  C10_THROW_ERROR(TypeError, c10::str("An array from another library has an element type that tensors on device xla cannot have: code ", int{type.code}, ", ",
                                      int{type.bits}, " bits; view it as an integer type first"));
}

// Gives Python's lock up where this thread holds it.
class WithoutPython {
 public:
  WithoutPython() {
    if (PyGILState_Check()) saved_ = PyEval_SaveThread();
  }
  ~WithoutPython() {
    if (saved_) PyEval_RestoreThread(saved_);
  }
  WithoutPython(const WithoutPython&) = delete;

 private:
  PyThreadState* saved_ = nullptr;
};

// Fixes the storage at its address and waits until the host may use it. The storage's home never changes from then on.
const runtime::BufferPtr& home_of(const at::Tensor& tensor) {
  lazy::Storage& storage = storage_of(tensor);
  if (!storage.home || storage.trace || !storage.home->is_idle()) {
    WithoutPython without;
    translated([&] { lazy::Session::get().expose(storage); });
  }
  return storage.home;
}

dl::ArrayRef array_of(const at::Tensor& tensor, LendFlags flags) {
  static const runtime::BufferPtr nothing;
  require_lendable(tensor);
  const bool empty = tensor.numel() == 0;
  return {.buffer = empty ? &nothing : &home_of(tensor),
          .byte_offset = empty ? 0 : static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size(),
          .dtype = type_of(tensor.scalar_type()),
          .shape = {tensor.sizes().data(), tensor.sizes().size()},
          .strides = {tensor.strides().data(), tensor.strides().size()},
          .read_only = flags.read_only,
          .is_copied = flags.is_copied};
}

// Where the borrower may queue work.
std::vector<runtime::Stream*> consumers() { return lazy::Session::get().is_host_memory() ? std::vector<runtime::Stream*>() : outside_streams(); }

// Takes an array over; what is wrong with it is raised as BufferError.
template <class Import>
dl::Array taken(Import&& import) {
  try {
    return import(lazy::Session::get().device());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Invalid) rethrow_as_torch(error);
    C10_THROW_ERROR(BufferError, error.what());
  }
}

at::Tensor tensor_over(const dl::Array& array) {
  const ScalarType type = type_of(array.dtype);
  const size_t bytes = array.buffer->size();
  c10::Storage storage = make_storage(bytes);
  if (bytes != 0) {
    lazy::Storage& mine = storage_of(*storage.unsafeGetStorageImpl());
    translated([&] { lazy::Session::get().assign(mine, array.buffer, flat_view(require_ir_dtype(type), bytes), /*exclusive=*/false); });
    if (!array.read_only) mine.home = array.buffer;  // nobody else knows the storage yet
  }
  return make_tensor(std::move(storage), array.shape, array.strides, 0, c10::scalarTypeToTypeMeta(type));
}

}  // namespace

dl::DeviceId dlpack_place() {
  auto& session = lazy::Session::get();
  return session.is_host_memory() ? dl::DeviceId{dl::kCpu, 0} : dl::DeviceId{dl::kCuda, session.device().ordinal()};
}

bool has_device_memory(const at::Tensor& tensor) { return is_ours(tensor) && tensor.has_storage() && !tensor.key_set().has(c10::DispatchKey::Python); }

void require_lendable(const at::Tensor& tensor) {
  const char* why = nullptr;
  if (tensor.requires_grad()) {
    why = "A tensor that requires grad can't be exported; use tensor.detach()";
  } else if (tensor.is_conj() || tensor.is_neg()) {
    why = "A tensor with the conjugate or negative bit can't be exported; use tensor.resolve_conj().resolve_neg()";
  } else if (!has_device_memory(tensor)) {
    why = "A tensor without memory of its own (fake, functional or batched) can't be exported";
  }
  if (why) C10_THROW_ERROR(BufferError, why);
}

dl::ManagedTensorVersioned* lend_versioned(const at::Tensor& tensor, LendFlags flags) {
  return dl::lend_versioned(array_of(tensor, flags), dlpack_place(), consumers());
}

dl::ManagedTensor* lend_legacy(const at::Tensor& tensor, LendFlags flags) {
  return translated([&] { return dl::lend_legacy(array_of(tensor, flags), dlpack_place(), consumers()); });
}

void lend_borrowed(const at::Tensor& tensor, dl::Tensor* out) {
  const dl::ArrayRef array = array_of(tensor, {});
  *out = {.data = tensor.numel() != 0 ? (*array.buffer)->data() : nullptr,
          .device = dlpack_place(),
          .rank = static_cast<int32_t>(array.shape.size()),
          .dtype = array.dtype,
          .shape = const_cast<int64_t*>(array.shape.data()),
          .strides = const_cast<int64_t*>(array.strides.data()),
          .byte_offset = array.byte_offset};
}

void order_stream_after_us(void* handle, const at::Tensor& tensor) {
  if (tensor.numel() != 0) order_stream_after_us(handle, home_of(tensor));
}

at::Tensor borrow_versioned(dl::ManagedTensorVersioned* managed) {
  return tensor_over(taken([&](runtime::Device& device) { return dl::import_versioned(device, dlpack_place(), managed); }));
}

at::Tensor borrow_legacy(dl::ManagedTensor* managed) {
  return tensor_over(taken([&](runtime::Device& device) { return dl::import_legacy(device, dlpack_place(), managed); }));
}

}  // namespace thalweg::aten
