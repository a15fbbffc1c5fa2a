// Command-line arguments: one file, options with values, flags.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "support/error.h"

namespace thalweg::tools_cli {

// `FILE --name value --flag`. Throws Error(Invalid) for what the command does not know.
class Arguments {
 public:
  Arguments(std::span<const std::string> arguments, const std::set<std::string>& valued, const std::set<std::string>& flags, bool wants_file = true) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (valued.contains(argument)) {
        THALWEG_CHECK(i + 1 < arguments.size(), Invalid, "option needs a value: ", argument);
        values_[argument] = arguments[++i];
      } else if (flags.contains(argument)) {
        values_[argument] = "";
      } else {
        THALWEG_CHECK(wants_file && file_.empty() && !argument.starts_with("--"), Invalid, "unknown argument: ", argument);
        file_ = argument;
      }
    }
    THALWEG_CHECK(!wants_file || !file_.empty(), Invalid, "no program given; name a .mlir file");
  }

  // The program's path; whether an option is given; its value as text or a number, the fallback when it is not given.
  const std::string& file() const { return file_; }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string value(const std::string& name, const std::string& fallback = "") const {
    const auto found = values_.find(name);
    return found == values_.end() ? fallback : found->second;
  }
  int64_t integer(const std::string& name, int64_t fallback) const {
    if (!has(name)) return fallback;
    try {
      size_t used = 0;
      const int64_t number = std::stoll(value(name), &used);
      if (used == value(name).size()) return number;
    } catch (const std::exception&) {
    }
    raise(ErrorKind::Invalid, "option needs an integer: ", name, " ", value(name));
  }
  double real(const std::string& name, double fallback) const {
    if (!has(name)) return fallback;
    try {
      return std::stod(value(name));
    } catch (const std::exception&) {
      raise(ErrorKind::Invalid, "option needs a number: ", name, " ", value(name));
    }
  }

 private:
  std::string file_;
  std::map<std::string, std::string> values_;
};

}  // namespace thalweg::tools_cli
