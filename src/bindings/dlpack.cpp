// DLPack for Python: capsules, and the table of C functions on the tensor type.
#include "bindings/dlpack.h"

#include <ATen/DLConvertor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>

#include "aten/cuda_sharing.h"
#include "aten/dlpack.h"
#include "aten/errors.h"
#include "aten/host_access.h"
#include "aten/torch_cuda.h"
#include "lazy/session.h"
#include "runtime/dlpack.h"

namespace thalweg::bindings {
namespace {

namespace py = pybind11;
namespace dl = runtime::dlpack;

std::atomic<bool> closed{false};

bool may_release() { return !closed.load() && Py_IsInitialized(); }

// The names of fresh and of used capsules, by kind of array.
template <class Managed>
struct Names;
template <>
struct Names<dl::ManagedTensor> {
  static constexpr const char *fresh = "dltensor", *used = "used_dltensor";
};
template <>
struct Names<dl::ManagedTensorVersioned> {
  static constexpr const char *fresh = "dltensor_versioned", *used = "used_dltensor_versioned";
};

// A capsule that owns the array until somebody takes it.
template <class Managed>
py::object capsule_of(Managed* managed) {
  PyObject* capsule = PyCapsule_New(managed, Names<Managed>::fresh, [](PyObject* self) {
    if (!PyCapsule_IsValid(self, Names<Managed>::fresh)) return;
    auto* owned = static_cast<Managed*>(PyCapsule_GetPointer(self, Names<Managed>::fresh));
    if (owned->deleter) owned->deleter(owned);
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

template <class Managed>
Managed* take_from(PyObject* capsule) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Names<Managed>::fresh));
  if (managed == nullptr || PyCapsule_SetName(capsule, Names<Managed>::used) != 0) throw py::error_already_set();
  return managed;
}

at::Tensor from_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Names<dl::ManagedTensorVersioned>::fresh)) {
    auto* managed = take_from<dl::ManagedTensorVersioned>(capsule);
    py::gil_scoped_release without;
    return aten::borrow_versioned(managed);
  }
  if (PyCapsule_IsValid(capsule, Names<dl::ManagedTensor>::fresh)) {
    auto* managed = take_from<dl::ManagedTensor>(capsule);
    py::gil_scoped_release without;
    return aten::borrow_legacy(managed);
  }
  const char* name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  C10_THROW_ERROR(BufferError, c10::str("Expected a DLPack capsule that nobody has consumed; got one named ", name ? name : "(nothing)",
                                        ": ask the producer for a new one"));
}

bool is_on_cpu() { return aten::dlpack_place().type == dl::kCpu; }

// The consumer's stream: a number of DLPack's for GPUs (1 the default stream, 2 the thread's own, else the driver's handle), or -1 where nothing is to be
// ordered. None stands for the default stream of a GPU.
long long checked_stream(const py::handle& stream) {
  const bool on_cpu = is_on_cpu();
  if (stream.is_none()) return on_cpu ? -1 : 1;
  TORCH_CHECK_TYPE(PyLong_Check(stream.ptr()), "stream must be int or None");
  const long long number = PyLong_AsLongLong(stream.ptr());
  if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
  if (on_cpu && number != -1) C10_THROW_ERROR(BufferError, c10::str("Memory of the CPU has no streams; stream must be None or -1 and is ", number));
  if (number == 0 || number < -1) C10_THROW_ERROR(BufferError, c10::str("stream must be None, -1, 1, 2 or a stream of CUDA's and is ", number));
  return number;
}

void check_device(const py::handle& device) {
  if (device.is_none()) return;
  const auto [type, index] = py::cast<std::pair<long long, long long>>(device);
  const dl::DeviceId place = aten::dlpack_place();
  if (type != place.type || (type != dl::kCpu && index != place.index)) {
    C10_THROW_ERROR(BufferError, c10::str("Device xla is ", place.type == dl::kCpu ? std::string("the CPU") : c10::str("GPU ", place.index),
                                          " here; it can't export to DLPack device (", type, ", ", index, ")"));
  }
}

at::Tensor copy_of(const at::Tensor& tensor) {
  py::gil_scoped_release without;
  return tensor.clone();
}

py::object to_dlpack(const at::Tensor& tensor, const py::object& stream, const py::object& max_version, const py::object& dl_device, const py::object& copy,
                     bool read_only) {
  const long long consumer = checked_stream(stream);
  check_device(dl_device);
  aten::require_lendable(tensor);
  const bool copied = !copy.is_none() && py::cast<bool>(copy);
  const at::Tensor source = copied ? copy_of(tensor) : tensor;
  const aten::LendFlags flags{.read_only = read_only, .is_copied = copied};
  const bool versioned = !max_version.is_none() && py::cast<py::tuple>(max_version)[0].cast<long>() >= 1;
  if (read_only && !versioned) C10_THROW_ERROR(BufferError, "Only versioned DLPack can say read-only: pass max_version=(1, 0) or newer");
  py::object capsule = versioned ? capsule_of(aten::lend_versioned(source, flags)) : capsule_of(aten::lend_legacy(source, flags));
  if (consumer != -1) {
    py::gil_scoped_release without;
    aten::order_stream_after_us(reinterpret_cast<void*>(consumer), source);
  }
  return capsule;
}

// The table of the object's type, null when it has none that we can read.
dl::ExchangeApi* exchange_api_of(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  // Not PyObject_GetAttr: an attribute that is missing would cost more than the whole exchange.
  PyObject* attribute = _PyType_Lookup(Py_TYPE(object), name);
  if (attribute == nullptr || !PyCapsule_IsValid(attribute, "dlpack_exchange_api")) return nullptr;
  auto* header = static_cast<dl::ExchangeHeader*>(PyCapsule_GetPointer(attribute, "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != dl::kMajorVersion) header = header->previous;
  return reinterpret_cast<dl::ExchangeApi*>(header);
}

// Asks for a capsule with what the producer's version of the protocol takes, ordered on our stream where it lies on a GPU.
py::object ask_for_capsule(const py::object& source, const py::object& copy) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack__");
  static PyObject* const version = py::make_tuple(dl::kMajorVersion, dl::kMinorVersion).release().ptr();
  static PyObject *const with_version = py::make_tuple("max_version").release().ptr(), *const with_both = py::make_tuple("max_version", "copy").release().ptr();
  static PyObject *const with_stream = py::make_tuple("max_version", "stream").release().ptr(),
                         *const with_all = py::make_tuple("max_version", "stream", "copy").release().ptr();
  PyObject* capsule = nullptr;
  if (is_on_cpu()) {
    PyObject* arguments[] = {source.ptr(), version, copy.ptr()};
    capsule = PyObject_VectorcallMethod(name, arguments, 1, copy.is_none() ? with_version : with_both);
  } else {
    const py::int_ stream(reinterpret_cast<uintptr_t>(lazy::Session::get().device().compute_stream().native()));
    PyObject* arguments[] = {source.ptr(), version, stream.ptr(), copy.ptr()};
    capsule = PyObject_VectorcallMethod(name, arguments, 1, copy.is_none() ? with_stream : with_all);
  }
  const bool may_share = copy.is_none() || py::cast<bool>(copy);
  if (capsule == nullptr && may_share && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer from before these arguments
    PyErr_Clear();
    capsule = PyObject_CallMethodNoArgs(source.ptr(), name);
  }
  if (capsule == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(capsule);
}

// A GPU takes no array of the host: asked for one with our stream, its producer would complain about that instead.
void check_place(const py::object& source) {
  if (is_on_cpu() || !py::hasattr(source, "__dlpack_device__")) return;
  const auto [type, index] = py::cast<std::pair<int, int>>(source.attr("__dlpack_device__")());
  const dl::DeviceId ours = aten::dlpack_place();
  if (type == dl::kCpu || (type == ours.type && index != ours.index)) {
    C10_THROW_ERROR(BufferError, c10::str("The memory lies on DLPack device (", type, ", ", index, "), but device xla is GPU ", ours.index,
                                          " here; make a tensor of it and copy that with .to('xla')"));
  }
}

at::Tensor from_tensor(const at::Tensor& tensor) {
  if (aten::has_device_memory(tensor)) {
    aten::require_lendable(tensor);
    return tensor.alias();
  }
  const bool on_gpu = !is_on_cpu() && aten::has_torch_cuda();
  if (tensor.layout() != c10::kStrided || !(on_gpu ? aten::is_on_our_gpu(tensor) : is_on_cpu() && tensor.is_cpu())) {
    const std::string ours = is_on_cpu() ? "the CPU" : c10::str("GPU ", aten::dlpack_place().index);
    C10_THROW_ERROR(BufferError, c10::str("The memory lies on ", tensor.device(), ", but device xla is ", ours, " here; copy it with .to('",
                                          is_on_cpu() ? "cpu" : "xla", "') first"));
  }
  if (tensor.requires_grad()) C10_THROW_ERROR(BufferError, "A tensor that requires grad can't be exported; use tensor.detach()");
  if (tensor.is_conj() || tensor.is_neg()) {
    C10_THROW_ERROR(BufferError, "A tensor with the conjugate or negative bit can't be exported; use tensor.resolve_conj().resolve_neg()");
  }
  py::gil_scoped_release without;
  return on_gpu ? aten::wrap_cuda_tensor(tensor) : aten::wrap_host_tensor(tensor);
}

at::Tensor from_dlpack(const py::object& source, const py::object& copy) {
  const bool wants_copy = !copy.is_none() && py::cast<bool>(copy);
  at::Tensor tensor;
  bool copied = false;
  if (THPVariable_Check(source.ptr())) {
    tensor = from_tensor(THPVariable_Unpack(source.ptr()));
  } else if (PyCapsule_CheckExact(source.ptr())) {
    tensor = from_capsule(source.ptr());
  } else if (dl::ExchangeApi* api = exchange_api_of(source.ptr())) {
    dl::ManagedTensorVersioned* managed = nullptr;
    if (api->to_managed(source.ptr(), &managed) != 0) throw py::error_already_set();
    py::gil_scoped_release without;
    tensor = aten::borrow_versioned(managed);
  } else {
    static PyObject* const name = PyUnicode_InternFromString("__dlpack__");
    check_place(source);
    TORCH_CHECK_TYPE(_PyType_Lookup(Py_TYPE(source.ptr()), name) != nullptr, "from_dlpack takes an array with __dlpack__ or a DLPack capsule; got ",
                     Py_TYPE(source.ptr())->tp_name);
    tensor = from_capsule(ask_for_capsule(source, copy).ptr());
    copied = wants_copy && !aten::has_device_memory(tensor);
  }
  return wants_copy && !copied ? copy_of(tensor) : tensor;
}

// torch.from_dlpack() of a device tensor in host memory, in one call: core's method and function by name, and its capsule, cost several times the exchange.
// None for every other object.
py::object lend_to_torch(const py::object& source) {
  if (!is_on_cpu() || !THPVariable_Check(source.ptr())) return py::none();
  const at::Tensor& tensor = THPVariable_Unpack(source.ptr());
  if (!aten::has_device_memory(tensor)) return py::none();
  auto* managed = reinterpret_cast<DLManagedTensorVersioned*>(aten::lend_versioned(tensor, {}));
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(at::fromDLPackVersioned(managed)));
}

// --- The table on torch.Tensor: core's own functions, but for our tensors.

template <bool read_only>
int to_managed(void* object, dl::ManagedTensorVersioned** out) {
  HANDLE_TH_ERRORS
  const at::Tensor& tensor = THPVariable_Unpack(static_cast<PyObject*>(object));
  *out = aten::lend_versioned(tensor, {.read_only = read_only});
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

int to_tensor(void* object, dl::Tensor* out) {
  HANDLE_TH_ERRORS
  aten::lend_borrowed(THPVariable_Unpack(static_cast<PyObject*>(object)), out);
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

bool is_ours(void* object) { return aten::has_device_memory(THPVariable_Unpack(static_cast<PyObject*>(object))); }

// Core's table with our tensors taken out of it.
template <bool read_only>
struct Table {
  static inline dl::ExchangeApi core, ours;
  static dl::ExchangeApi* over(const dl::ExchangeApi& theirs) {
    core = ours = theirs;
    ours.header.previous = nullptr;
    ours.to_managed = [](void* object, dl::ManagedTensorVersioned** out) {
      return is_ours(object) ? to_managed<read_only>(object, out) : core.to_managed(object, out);
    };
    ours.to_tensor = [](void* object, dl::Tensor* out) {
      if (is_ours(object)) return to_tensor(object, out);
      if (core.to_tensor) return core.to_tensor(object, out);
      PyErr_SetString(PyExc_BufferError, "PyTorch's own tensors can't be borrowed: ask for a managed array instead");
      return -1;
    };
    return &ours;
  }
};

// A capsule like `core`, whose functions know tensors on device xla too. Raises RuntimeError for a table of a strange major version.
py::object extended_exchange_api(const py::capsule& core, bool read_only) {
  auto* theirs = static_cast<dl::ExchangeApi*>(PyCapsule_GetPointer(core.ptr(), "dlpack_exchange_api"));
  if (theirs == nullptr) throw py::error_already_set();
  TORCH_CHECK(theirs->header.version.major == dl::kMajorVersion, "PyTorch's DLPack table has version ", theirs->header.version.major, "; this build knows ",
              dl::kMajorVersion);
  dl::ExchangeApi* table = read_only ? Table<true>::over(*theirs) : Table<false>::over(*theirs);
  PyObject* capsule = PyCapsule_New(table, "dlpack_exchange_api", nullptr);
  if (capsule == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

void close_dlpack() { closed.store(true); }

void bind_dlpack(py::module_& m) {
  dl::set_release_guard(&may_release);
  m.def("to_dlpack", &to_dlpack, py::arg("tensor"), py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
        py::arg("dl_device") = py::none(), py::arg("copy") = py::none(), py::arg("read_only") = false);
  m.def("from_dlpack", &from_dlpack, py::arg("source"), py::arg("copy") = py::none());
  m.def("lend_to_torch", &lend_to_torch, py::arg("source"));
  m.def("extended_exchange_api", &extended_exchange_api, py::arg("core"), py::arg("read_only"));
  m.def("leaked_releases", &dl::leaked_releases);
}

}  // namespace thalweg::bindings
