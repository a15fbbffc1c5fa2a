// The meeting place, and the run over all devices.
#include "interp/devices.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "interp/interpreter.h"
#include "interp/machine.h"

namespace thalweg::interp {

bool Devices::someone_left(const std::vector<int64_t>& group, const Meeting& meeting) const {
  return std::any_of(left_.begin(), left_.end(),
                     [&](int64_t d) { return std::find(group.begin(), group.end(), d) != group.end() && !meeting.operands.contains(d); });
}

std::vector<std::vector<ir::Literal>> Devices::meet(const void* op, const std::vector<int64_t>& group, int64_t device, std::vector<ir::Literal> operands) {
  std::unique_lock lock(mutex_);
  const std::pair key(op, group);
  // A device that is faster than others may come again before they have left.
  changed_.wait(lock, [&] { return !meetings_[key].operands.contains(device); });
  meetings_[key].operands.emplace(device, std::move(operands));
  changed_.notify_all();
  changed_.wait(lock, [&] { return meetings_[key].operands.size() == group.size() || someone_left(group, meetings_[key]); });
  Meeting& meeting = meetings_[key];
  THALWEG_CHECK(meeting.operands.size() == group.size(), Invalid, "collective waits for a device that has ended; device: ", device);
  std::vector<std::vector<ir::Literal>> all;
  for (int64_t d : group) all.push_back(meeting.operands.at(d));
  if (++meeting.gone == group.size()) {
    meetings_.erase(key);
    changed_.notify_all();
  }
  return all;
}

void Devices::leave(int64_t device) {
  const std::lock_guard lock(mutex_);
  left_.push_back(device);
  changed_.notify_all();
}

std::vector<std::vector<ir::Literal>> run_parallel(const ir::Module& module, const ir::Function& function, const std::vector<std::vector<ir::Literal>>& inputs,
                                                   int64_t replicas, int64_t partitions, const Options& options) {
  const int64_t count = replicas * partitions;
  THALWEG_CHECK(static_cast<int64_t>(inputs.size()) == count, Invalid, "one list of inputs is needed for each device; given: ", inputs.size(),
                ", devices: ", count);
  for (const auto& list : inputs) {
    THALWEG_CHECK(list.size() == function.body.args.size(), Invalid, "wrong number of inputs: ", list.size(), ", @", function.name, " takes ",
                  function.body.args.size());
    for (size_t i = 0; i < list.size(); ++i)
      THALWEG_CHECK(list[i].type == function.body.args[i]->type, Invalid, "input ", i, " has the wrong type: ", to_string(list[i].type));
  }
  Devices devices(replicas, partitions);
  std::vector<std::vector<ir::Literal>> outputs(inputs.size());
  std::vector<std::exception_ptr> errors(inputs.size());
  const auto work = [&](int64_t device) {
    const auto d = static_cast<size_t>(device);
    try {
      Machine machine(&module, options, &devices, device);
      outputs[d] = machine.run(function.body, inputs[d]);
    } catch (...) {
      errors[d] = std::current_exception();
    }
    devices.leave(device);
  };
  std::vector<std::thread> threads;
  for (int64_t device = 0; device < count; ++device) threads.emplace_back(work, device);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return outputs;
}

}  // namespace thalweg::interp
