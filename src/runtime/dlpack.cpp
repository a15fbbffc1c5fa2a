// Export and import of DLPack arrays, with every check before anything is taken over.
#include "runtime/dlpack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "support/error.h"

namespace thalweg::runtime::dlpack {
namespace {

std::atomic<bool (*)()> release_guard{nullptr};
std::atomic<uint64_t> leaks{0};

constexpr size_t kInlineRank = 6;  // dimensions for which an export is one allocation

// What an exported array keeps alive.
template <class Managed>
struct Exported {
  Managed managed{};
  BufferPtr buffer;
  std::array<int64_t, 2 * kInlineRank> few;
  std::unique_ptr<int64_t[]> many;
  std::vector<Axis*> consumers;
  ~Exported() {
    for (Axis* axis : consumers) buffer->add_use(*axis);
  }
};

void fill_row_major(std::span<const int64_t> shape, int64_t* strides) {
  uint64_t step = 1;  // may wrap around for sizes that check_layout() refuses
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1));
  }
}

std::vector<int64_t> row_major(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  fill_row_major(shape, strides.data());
  return strides;
}

ArrayRef ref_of(const Array& array) {
  return {&array.buffer, array.byte_offset, array.dtype, array.shape, array.strides, array.read_only, array.is_copied, array.sub_byte_padded};
}

template <class Managed>
Managed* make_export(const ArrayRef& array, DeviceId device, std::span<Stream* const> consumers) {
  auto exported = std::make_unique<Exported<Managed>>();
  for (Stream* stream : consumers) exported->consumers.push_back(&stream->axis());
  exported->buffer = *array.buffer;
  const size_t rank = array.shape.size();
  if (rank > kInlineRank) exported->many = std::make_unique<int64_t[]>(2 * rank);
  int64_t *shape = exported->many ? exported->many.get() : exported->few.data(), *strides = shape + rank;
  std::copy(array.shape.begin(), array.shape.end(), shape);
  // Strides that mean nothing are written as those of a row-major array: some consumers look at them.
  fill_row_major(array.shape, strides);
  const bool empty = std::find(shape, shape + rank, 0) != shape + rank;
  for (size_t i = 0; i < rank && !empty; ++i) {
    if (shape[i] != 1) strides[i] = array.strides[i];
  }
  Managed& managed = exported->managed;
  managed.tensor = {.data = empty ? nullptr : (*array.buffer)->data(),
                    .device = device,
                    .rank = static_cast<int32_t>(rank),
                    .dtype = array.dtype,
                    .shape = shape,
                    .strides = strides,
                    .byte_offset = empty ? 0 : array.byte_offset};
  managed.owner = exported.get();
  managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->owner); };
  return &exported.release()->managed;
}

// Whether an array on `device` is memory of `expected`.
bool lies_on(DeviceId device, DeviceId expected) {
  if (expected.type == kCpu) return device.type == kCpu || device.type == kCudaHost || device.type == kRocmHost;
  return device.type == expected.type && device.index == expected.index;
}

// Calls the deleter of an array that was handed to us, once.
template <class Managed>
void release(Managed* managed) {
  if (managed->deleter == nullptr) return;
  bool (*may_release)() = release_guard.load(std::memory_order_acquire);
  if (may_release && !may_release()) {
    ++leaks;
    return;
  }
  managed->deleter(managed);
}

// The distance in elements from the first to the last one; throws where strides make no array.
uint64_t check_layout(const Array& array) {
  struct Dimension {
    int64_t size, stride;
  };
  std::vector<Dimension> dimensions;
  bool empty = false;
  for (size_t i = 0; i < array.shape.size(); ++i) {
    THALWEG_CHECK(array.shape[i] >= 0, Invalid, "an array from another library has a negative size: ", array.shape[i], " in dimension ", i);
    empty = empty || array.shape[i] == 0;
    if (array.shape[i] > 1) dimensions.push_back({array.shape[i], array.strides[i]});
  }
  if (empty) return 0;
  std::sort(dimensions.begin(), dimensions.end(), [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  uint64_t reach = 0;
  for (const Dimension& dimension : dimensions) {
    THALWEG_CHECK(dimension.stride >= 0, Invalid, "an array from another library runs backwards (stride ", dimension.stride, "): pass a copy of it");
    THALWEG_CHECK(static_cast<uint64_t>(dimension.stride) > reach, Invalid, "elements of an array from another library overlap (stride ", dimension.stride,
                  " within the ", reach + 1, " elements of inner dimensions): pass a copy of it");
    uint64_t more = 0;
    bool fits = !__builtin_mul_overflow(static_cast<uint64_t>(dimension.size - 1), static_cast<uint64_t>(dimension.stride), &more) &&
                !__builtin_add_overflow(reach, more, &reach) && reach < (uint64_t{1} << 56);
    THALWEG_CHECK(fits, Invalid, "an array from another library is larger than memory: size ", dimension.size, ", stride ", dimension.stride);
  }
  return reach;
}

void check_type(const DataType& dtype) {
  THALWEG_CHECK(dtype.lanes == 1, Invalid, "an array from another library has vectors of ", dtype.lanes, " lanes as elements: view it as scalars first");
  static constexpr uint8_t kBits[][3] = {{8, 64, 0}, {8, 64, 0}, {16, 64, 0}, {0, 0, 0}, {16, 16, 0}, {64, 128, 0}, {8, 8, 0}};
  bool known = false;
  if (dtype.code < std::size(kBits)) {
    known = dtype.bits >= kBits[dtype.code][0] && dtype.bits <= kBits[dtype.code][1] && (dtype.bits & (dtype.bits - 1)) == 0;
    known = known || (dtype.code <= kUInt && (dtype.bits == 2 || dtype.bits == 4));
  } else if (dtype.code <= kFloat8_e8m0fnu) {
    known = dtype.bits == 8;
  } else if (dtype.code <= kFloat6_e3m2fn) {
    known = dtype.bits == 6;
  } else if (dtype.code == kFloat4_e2m1fn) {
    known = dtype.bits == 4;
  }
  THALWEG_CHECK(known, Invalid, "an array from another library has an element type that is not known: code ", int{dtype.code}, ", ", int{dtype.bits}, " bits");
}

template <class Managed>
Array import_tensor(Device& device, DeviceId expected, Managed* managed, uint64_t flags) {
  const Tensor& tensor = managed->tensor;
  // Owns the array until the buffer does.
  std::unique_ptr<Managed, void (*)(Managed*)> owner(managed, [](Managed* self) { release(self); });
  THALWEG_CHECK(lies_on(tensor.device, expected), Invalid, "an array from another library lies on device ", tensor.device.type, ":", tensor.device.index,
                ", not on ", expected.type, ":", expected.index, ": move it there first");
  check_type(tensor.dtype);
  THALWEG_CHECK(tensor.rank >= 0 && (tensor.rank == 0 || tensor.shape != nullptr), Invalid, "an array from another library has no shape: rank ", tensor.rank);
  Array array;
  array.dtype = tensor.dtype;
  array.read_only = flags & kReadOnly;
  array.is_copied = flags & kIsCopied;
  array.sub_byte_padded = flags & kSubBytePadded;
  if (tensor.rank > 0) array.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  array.strides = row_major(array.shape);
  if (tensor.rank > 0 && tensor.strides != nullptr) {
    for (int32_t i = 0; i < tensor.rank; ++i) {
      if (array.shape[i] != 1) array.strides[i] = tensor.strides[i];
    }
  }
  const uint64_t reach = check_layout(array);
  const bool empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  if (empty) array.strides = row_major(array.shape);
  const uint64_t bits = element_bits(array.dtype, array.sub_byte_padded);
  char* data = static_cast<char*>(tensor.data) + (empty ? 0 : tensor.byte_offset);
  THALWEG_CHECK(empty || tensor.data != nullptr, Invalid, "an array from another library has elements but no memory");
  const uint64_t scalar_bits = array.dtype.code == kComplex ? bits / 2 : bits;
  const uint64_t alignment = std::clamp<uint64_t>(scalar_bits / 8, 1, 8);
  THALWEG_CHECK(empty || reinterpret_cast<uintptr_t>(data) % alignment == 0, Invalid, "an array from another library is not aligned to its elements of ",
                bits / 8, " bytes: pass a copy of it");
  const uint64_t bytes = empty ? 0 : ((reach + 1) * bits + 7) / 8;
  array.buffer = device.wrap(data, bytes, [managed] { release(managed); }, ReleaseOn::OwnThread);
  if (array.read_only) array.buffer->set_read_only();
  owner.release();
  return array;
}

}  // namespace

uint64_t element_bits(const DataType& dtype, bool sub_byte_padded) {
  uint64_t bits = uint64_t{dtype.bits} * dtype.lanes;
  return bits < 8 && sub_byte_padded ? 8 : bits;
}

ManagedTensorVersioned* lend_versioned(const ArrayRef& array, DeviceId device, std::span<Stream* const> consumers) {
  ManagedTensorVersioned* managed = make_export<ManagedTensorVersioned>(array, device, consumers);
  managed->version = {kMajorVersion, kMinorVersion};
  managed->flags = array.read_only * kReadOnly + array.is_copied * kIsCopied + array.sub_byte_padded * kSubBytePadded;
  return managed;
}

ManagedTensor* lend_legacy(const ArrayRef& array, DeviceId device, std::span<Stream* const> consumers) {
  THALWEG_CHECK(!array.read_only, Invalid, "a read-only array cannot be handed to a library that knows only DLPack before 1.0: pass a copy of it");
  return make_export<ManagedTensor>(array, device, consumers);
}

ManagedTensorVersioned* export_versioned(const Array& array, DeviceId device, std::span<Stream* const> consumers) {
  return lend_versioned(ref_of(array), device, consumers);
}

ManagedTensor* export_legacy(const Array& array, DeviceId device, std::span<Stream* const> consumers) { return lend_legacy(ref_of(array), device, consumers); }

Array import_versioned(Device& device, DeviceId expected, ManagedTensorVersioned* managed) {
  if (managed->version.major != kMajorVersion) {
    uint32_t major = managed->version.major, minor = managed->version.minor;
    release(managed);
    raise(ErrorKind::Invalid, "an array from another library is of DLPack version ", major, ".", minor, "; we read ", kMajorVersion,
          ".x: ask it for an older version (max_version)");
  }
  return import_tensor(device, expected, managed, managed->flags);
}

Array import_legacy(Device& device, DeviceId expected, ManagedTensor* managed) { return import_tensor(device, expected, managed, 0); }

void set_release_guard(bool (*may_release)()) { release_guard.store(may_release, std::memory_order_release); }

uint64_t leaked_releases() { return leaks.load(); }

}  // namespace thalweg::runtime::dlpack
