// Launching on GPUs, and calls of the host in stream order.
#include "exec/cuda_program.h"

#include <algorithm>
#include <chrono>

#include "exec/placing.h"
#include "exec/profile.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"

namespace thalweg::exec {
namespace {

using runtime::cuda::check;
using runtime::cuda::DevicePtr;
using runtime::cuda::driver;
using runtime::cuda::StreamHandle;

constexpr size_t kAlignment = 256;  // of each constant

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

DevicePtr device_ptr(const void* address) { return reinterpret_cast<DevicePtr>(address); }

void copy_on_device(void* to, const void* from, size_t bytes, void* native) {
  if (to == from || bytes == 0) return;
  check(driver().copy(device_ptr(to), device_ptr(from), bytes, static_cast<StreamHandle>(native)), "copy memory");
}

// Puts commands on a stream one after the other.
class Issuer {
 public:
  Issuer(void* const* slots, void* native) : slots_(slots), native_(native) {}
  void operator()(const CudaKernelCommand& command) {
    void* parameters[] = {resolve(command.args)};
    runtime::cuda::launch(command.kernel, command.shape, native_, parameters);
  }
  void operator()(const CudaCallCommand& command) { command.fn(resolve(command.args), native_); }

 private:
  void** resolve(const std::vector<Ref>& refs) {
    args_.resize(std::max<size_t>({refs.size(), args_.size(), 1}));
    for (size_t i = 0; i < refs.size(); ++i) args_[i] = static_cast<char*>(slots_[refs[i].slot]) + refs[i].offset;
    return args_.data();
  }

  void* const* slots_;
  void* native_;
  std::vector<void*> args_;
};

// Each command is waited for, which adds some microseconds to each.
void run_profiled(const CudaProgram& program, Issuer& issuer, void* native) {
  auto wait = [&] { check(driver().stream_synchronize(static_cast<StreamHandle>(native)), "wait for a stream"); };
  wait();
  for (const CudaCommand& command : program.commands) {
    const auto start = std::chrono::steady_clock::now();
    std::visit(issuer, command);
    wait();
    const std::string name = std::visit([](const auto& c) { return c.name; }, command);
    profile((std::holds_alternative<CudaKernelCommand>(command) ? "kernel " : "call ") + name,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(CudaProgram program, runtime::Device& device) : program_(std::make_shared<const CudaProgram>(std::move(program))), device_(device) {}
  const ExecutableInfo& info() const override { return program_->info; }
  LaunchResult launch(runtime::Stream& stream, std::span<const Argument> arguments) const override;

 private:
  std::vector<Argument> aligned(runtime::Stream& stream, std::span<const Argument> arguments) const;

  std::shared_ptr<const CudaProgram> program_;
  runtime::Device& device_;
};

// What one launch keeps until it has been issued, perhaps by another thread.
struct Launch {
  std::shared_ptr<const CudaProgram> program;
  Placed placed;
  void* scalars = nullptr;  // on the device
};

void issue(const Launch& launch, void* native) {
  const Placed& placed = launch.placed;
  // Small copies from ordinary memory are read before the call returns.
  if (launch.scalars)
    check(
        driver().copy_to_device(device_ptr(launch.scalars), placed.scalars.data(), placed.scalars.size() * sizeof(uint64_t), static_cast<StreamHandle>(native)),
        "copy scalars");
  for (const Placed::Copy& copy : placed.copies) copy_on_device(placed.slots[copy.to], placed.slots[copy.from], copy.bytes, native);
  run(*launch.program, placed.slots, native);
}

// The arguments, copied where they lie at an address that kernels and libraries do not take; empty when all are well.
std::vector<Argument> CudaExecutable::aligned(runtime::Stream& stream, std::span<const Argument> arguments) const {
  std::vector<Argument> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const runtime::BufferPtr& buffer = arguments[i].buffer;
    if (!buffer || reinterpret_cast<uintptr_t>(buffer->data()) % kArgumentAlignment == 0) continue;
    if (out.empty()) out.assign(arguments.begin(), arguments.end());
    runtime::BufferPtr copy = stream.allocate(buffer->size());
    runtime::cuda::copy(stream, buffer, 0, copy, 0, buffer->size());
    out[i] = {std::move(copy), 0, arguments[i].donated};
  }
  return out;
}

LaunchResult CudaExecutable::launch(runtime::Stream& stream, std::span<const Argument> given) const {
  THALWEG_ASSERT(&stream.device() == &device_, "the program was compiled for ", device_.name(), ", the stream is of ", stream.device().name());
  const std::vector<Argument> moved = aligned(stream, given);
  const std::span<const Argument> arguments = moved.empty() ? given : std::span<const Argument>(moved);
  auto launch = std::make_shared<Launch>();
  launch->program = program_;
  runtime::Submission submission(stream);
  LaunchResult result;
  launch->placed = place(*program_, stream, arguments, submission, result);
  if (std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) { return !argument.buffer; })) {
    runtime::BufferPtr buffer = stream.allocate(arguments.size() * sizeof(uint64_t));
    launch->scalars = buffer->data();
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!arguments[i].buffer) launch->placed.slots[i] = static_cast<uint64_t*>(buffer->data()) + i;
    submission.write(std::move(buffer));
  }
  if (program_->constant_buffer) submission.read(program_->constant_buffer);
  for (const runtime::BufferPtr& buffer : program_->held) submission.read(buffer);
  submission.label("program");
  submission.run([launch](void* native) { issue(*launch, native); });
  return result;
}

// One call of the host on its way.
struct HostRun {
  std::function<void(void* const* args)> fn;
  std::shared_ptr<char> memory;
  std::vector<void*> args;
  std::exception_ptr error;
};

void run_on_host(void* data) {
  HostRun& run = *static_cast<HostRun*>(data);
  try {
    run.fn(run.args.data());
  } catch (const Error&) {
    run.error = std::current_exception();
  } catch (const std::exception& other) {
    run.error = std::make_exception_ptr(Error(ErrorKind::Internal, other.what()));
  }
}

}  // namespace

void upload_constants(CudaProgram& program, runtime::Stream& stream) {
  size_t total = 0;
  for (const auto& constant : program.constants) {
    program.constant_offsets.push_back(total);
    total += round_up(constant.size(), kAlignment);
  }
  if (program.constants.empty()) return;
  std::vector<std::byte> packed(total);
  for (size_t i = 0; i < program.constants.size(); ++i) {
    std::copy(program.constants[i].begin(), program.constants[i].end(), packed.begin() + static_cast<int64_t>(program.constant_offsets[i]));
    program.constants[i] = {};
  }
  program.constant_buffer = stream.allocate(total);
  program.constant_buffer->set_label("constants");
  runtime::cuda::copy_from_host(stream, program.constant_buffer, 0, packed.data(), total);
}

void run(const CudaProgram& program, std::vector<void*> slots, void* native) {
  for (size_t i = 0; i < program.constants.size(); ++i)
    slots[program.constant_slot(i)] = static_cast<char*>(program.constant_buffer->data()) + program.constant_offsets[i];
  Issuer issuer(slots.data(), native);
  if (profiling()) return run_profiled(program, issuer, native);
  for (const CudaCommand& command : program.commands) std::visit(issuer, command);
}

CudaCall host_call(runtime::Device& device, std::function<void(void* const* args)> fn, std::vector<HostArg> args) {
  return [&device, fn = std::move(fn), args = std::move(args)](void* const* addresses, void* native) {
    auto run = std::make_shared<HostRun>();
    run->fn = fn;
    size_t total = 0;
    for (const HostArg& arg : args) total += round_up(arg.bytes, 64);
    run->memory = runtime::cuda::pinned_memory(device, total);
    char* at = run->memory.get();
    const StreamHandle stream = static_cast<StreamHandle>(native);
    for (size_t i = 0; i < args.size(); ++i) {
      run->args.push_back(at);
      if (!args[i].write && args[i].bytes) check(driver().copy_to_host(at, device_ptr(addresses[i]), args[i].bytes, stream), "copy to the host");
      at += round_up(args[i].bytes, 64);
    }
    check(driver().launch_host(stream, run_on_host, run.get()), "call the host");
    runtime::cuda::on_complete([run] {
      if (run->error) std::rethrow_exception(run->error);
    });
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].write && args[i].bytes) check(driver().copy_to_device(device_ptr(addresses[i]), run->args[i], args[i].bytes, stream), "copy from the host");
  };
}

CudaCall device_copy(size_t bytes) {
  return [bytes](void* const* args, void* native) { copy_on_device(args[1], args[0], bytes, native); };
}

std::shared_ptr<const Executable> make_executable(CudaProgram program, runtime::Device& device) {
  return std::make_shared<CudaExecutable>(std::move(program), device);
}

}  // namespace thalweg::exec
