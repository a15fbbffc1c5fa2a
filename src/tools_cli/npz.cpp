// The zip container and the .npy header.
#include "tools_cli/npz.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>

#include "support/error.h"
#include "tools_cli/inflate.h"

namespace thalweg::tools_cli {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
T read(Bytes bytes, size_t at) {
  THALWEG_CHECK(at + sizeof(T) <= bytes.size(), Invalid, "archive ends too early");
  T v;
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

std::string text_at(Bytes bytes, size_t at, size_t size) {
  THALWEG_CHECK(at + size <= bytes.size(), Invalid, "archive ends too early");
  return std::string(reinterpret_cast<const char*>(bytes.data()) + at, size);
}

struct Descr {
  const char* text;
  ir::DType dtype;
};
constexpr Descr kDescrs[] = {
    {"b1", ir::DType::I1},  {"i1", ir::DType::S8},    {"i2", ir::DType::S16},  {"i4", ir::DType::S32},      {"i8", ir::DType::S64}, {"u1", ir::DType::U8},
    {"u2", ir::DType::U16}, {"u4", ir::DType::U32},   {"u8", ir::DType::U64},  {"f2", ir::DType::F16},      {"f4", ir::DType::F32}, {"f8", ir::DType::F64},
    {"c8", ir::DType::C64}, {"c16", ir::DType::C128}, {"V2", ir::DType::BF16}, {"V1", ir::DType::F8E4M3FN},
};

// The text after `key` in the header's dict.
std::string header_entry(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "'");
  THALWEG_CHECK(at != std::string::npos, Invalid, "array header has no entry: ", key);
  return header.substr(header.find(':', at) + 1);
}

ir::Type array_type(const std::string& header) {
  const std::string descr = header_entry(header, "descr");
  const size_t open = descr.find('\''), close = descr.find('\'', open + 1);
  THALWEG_CHECK(open != std::string::npos && close != std::string::npos, Invalid, "array header has no plain type: ", header);
  const std::string spelled = descr.substr(open + 1, close - open - 1);
  THALWEG_CHECK(spelled[0] != '>', Invalid, "array is big-endian: ", spelled, "; save it little-endian");
  for (const Descr& row : kDescrs) {
    if (spelled.substr(spelled.find_first_not_of("<|=")) != row.text) continue;
    ir::Type type = ir::tensor(row.dtype);
    const std::string shape = header_entry(header, "shape");
    for (size_t i = shape.find('(') + 1; i < shape.size() && shape[i] != ')';) {
      size_t used = 0;
      if (!std::isdigit(static_cast<unsigned char>(shape[i]))) {
        ++i;
        continue;
      }
      type.dims.push_back(std::stoll(shape.substr(i), &used));
      i += used;
    }
    return type;
  }
  raise(ErrorKind::Invalid, "array has a type that no tensor has: ", spelled);
}

// Elements of a column-major array in row-major order.
void transpose_order(ir::Literal& literal) {
  const ir::Literal columns = literal;
  const auto bytes = static_cast<size_t>(byte_size(literal.type.dtype));
  const ir::Dims& dims = literal.type.dims;
  for (int64_t i = 0; i < literal.type.size(); ++i) {
    int64_t rest = i, from = 0, stride = literal.type.size();
    for (size_t d = dims.size(); d-- > 0;) {
      stride /= dims[d];
      from += rest % dims[d] * stride;
      rest /= dims[d];
    }
    std::memcpy(literal.data.data() + static_cast<size_t>(i) * bytes, columns.data.data() + static_cast<size_t>(from) * bytes, bytes);
  }
}

ir::Literal read_npy(Bytes bytes) {
  THALWEG_CHECK(bytes.size() > 10 && text_at(bytes, 1, 5) == "NUMPY", Invalid, "not a NumPy array");
  const bool wide = read<uint8_t>(bytes, 6) > 1;
  const size_t start = wide ? 12 : 10, length = wide ? read<uint32_t>(bytes, 8) : read<uint16_t>(bytes, 8);
  const std::string header = text_at(bytes, start, length);
  ir::Type type = array_type(header);
  THALWEG_CHECK(static_cast<size_t>(type.bytes()) == bytes.size() - start - length, Invalid,
                "array has the wrong number of bytes: ", bytes.size() - start - length, ", its shape needs: ", type.bytes());
  ir::Literal literal(type);
  std::memcpy(literal.data.data(), bytes.data() + start + length, literal.data.size());
  if (header_entry(header, "fortran_order").find("True") < 8) transpose_order(literal);
  return literal;
}

// Sizes and offset of one entry of the central directory, in 32 bits or in its zip64 part.
struct Entry {
  uint64_t compressed, size, offset;
};

Entry read_entry(Bytes file, size_t at, size_t name_length, size_t extra_length) {
  Entry entry{read<uint32_t>(file, at + 20), read<uint32_t>(file, at + 24), read<uint32_t>(file, at + 42)};
  size_t extra = at + 46 + name_length;
  const size_t end = extra + extra_length;
  while (extra + 4 <= end) {
    const uint16_t id = read<uint16_t>(file, extra), length = read<uint16_t>(file, extra + 2);
    size_t field = extra + 4;
    if (id == 1)
      for (uint64_t* value : {&entry.size, &entry.compressed, &entry.offset})
        if (*value == 0xFFFFFFFF) {
          *value = read<uint64_t>(file, field);
          field += 8;
        }
    extra += 4u + length;
  }
  return entry;
}

std::map<std::string, ir::Literal> read_zip(Bytes file) {
  size_t end = file.size() < 22 ? 0 : file.size() - 22;
  while (end > 0 && read<uint32_t>(file, end) != 0x06054B50) --end;
  THALWEG_CHECK(file.size() >= 22 && read<uint32_t>(file, end) == 0x06054B50, Invalid, "not a zip archive");
  std::map<std::string, ir::Literal> arrays;
  size_t at = read<uint32_t>(file, end + 16);
  for (int left = read<uint16_t>(file, end + 10); left > 0; --left) {
    THALWEG_CHECK(read<uint32_t>(file, at) == 0x02014B50, Invalid, "archive's directory is broken");
    const size_t name_length = read<uint16_t>(file, at + 28), extra_length = read<uint16_t>(file, at + 30), comment_length = read<uint16_t>(file, at + 32);
    const uint16_t method = read<uint16_t>(file, at + 10);
    const Entry entry = read_entry(file, at, name_length, extra_length);
    std::string name = text_at(file, at + 46, name_length);
    const size_t data = entry.offset + 30 + read<uint16_t>(file, entry.offset + 26) + read<uint16_t>(file, entry.offset + 28);
    THALWEG_CHECK(data <= file.size() && entry.compressed <= file.size() - data, Invalid, "archive ends too early: ", name);
    THALWEG_CHECK(method == 0 || method == 8, Invalid, "archive uses an unknown compression: ", method, "; save it with numpy.savez");
    const Bytes body = file.subspan(data, entry.compressed);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (method == 0)
      arrays[name] = read_npy(body);
    else
      arrays[name] = read_npy(inflate(body, entry.size));
    at += 46 + name_length + extra_length + comment_length;
  }
  return arrays;
}

uint32_t crc32(Bytes bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (std::byte b : bytes) crc = table[(crc ^ static_cast<uint32_t>(b)) & 255] ^ crc >> 8;
  return ~crc;
}

std::string descr_of(ir::DType dtype) {
  for (const Descr& row : kDescrs)
    if (row.dtype == dtype) return (byte_size(dtype) == 1 || row.text[0] == 'V' ? "|" : "<") + std::string(row.text);
  if (ir::is_float(dtype)) return "|V1";
  return dtype_class(dtype) == ir::DTypeClass::Signed ? "|i1" : "|u1";
}

std::string npy_bytes(const ir::Literal& given) {
  const ir::Literal literal = expand(given);
  std::string shape = "(";
  for (int64_t d : literal.type.dims) shape += std::to_string(d) + ",";
  std::string header = "{'descr': '" + descr_of(literal.type.dtype) + "', 'fortran_order': False, 'shape': " + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(literal.data.data()), literal.data.size());
  return out;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The fields that local and central headers share, from "version needed" to the name's length.
void append_common(std::string& out, const std::string& name, const std::string& body) {
  append<uint16_t>(out, 20);
  append<uint32_t>(out, 0);           // flags, stored
  append<uint32_t>(out, 0x00210000);  // 1 January 1980
  append<uint32_t>(out, crc32(std::as_bytes(std::span(body))));
  append(out, static_cast<uint32_t>(body.size()));
  append(out, static_cast<uint32_t>(body.size()));
  append(out, static_cast<uint16_t>(name.size()));
  append<uint16_t>(out, 0);
}

}  // namespace

std::map<std::string, ir::Literal> read_npz(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  THALWEG_CHECK(in, Invalid, "cannot open file: ", path);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  try {
    return read_zip(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    raise(ErrorKind::Invalid, "cannot read arrays from file: ", path, ": ", error.what());
  }
}

void write_npz(const std::string& path, const std::vector<std::pair<std::string, ir::Literal>>& arrays) {
  std::string file, directory;
  for (const auto& [plain, literal] : arrays) {
    const std::string name = plain + ".npy", body = npy_bytes(literal);
    THALWEG_CHECK(file.size() + body.size() < 0xFFFFFFFF, Invalid, "arrays are too large for one file: ", path, "; write fewer than 4 GB");
    const auto offset = static_cast<uint32_t>(file.size());
    append<uint32_t>(file, 0x04034B50);
    append_common(file, name, body);
    file += name + body;
    append<uint32_t>(directory, 0x02014B50);
    append<uint16_t>(directory, 20);
    append_common(directory, name, body);
    append<uint16_t>(directory, 0);  // comment
    append<uint32_t>(directory, 0);  // disk, internal attributes
    append<uint32_t>(directory, 0);
    append(directory, offset);
    directory += name;
  }
  const auto start = static_cast<uint32_t>(file.size());
  file += directory;
  append<uint32_t>(file, 0x06054B50);
  append<uint32_t>(file, 0);
  append(file, static_cast<uint16_t>(arrays.size()));
  append(file, static_cast<uint16_t>(arrays.size()));
  append(file, static_cast<uint32_t>(directory.size()));
  append(file, start);
  append<uint16_t>(file, 0);
  std::ofstream out(path, std::ios::binary);
  out.write(file.data(), static_cast<std::streamsize>(file.size()));
  THALWEG_CHECK(out.flush(), Invalid, "cannot write file: ", path);
}

}  // namespace thalweg::tools_cli
