// What PyTorch asks about the device outside of operations: guards, streams, events, hooks.
#include "aten/device_guard.h"

#include <chrono>

#include "aten/backend_key.h"
#include "aten/device_storage.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

using Clock = std::chrono::steady_clock;

// An event on the one stream: everything traced before it was put in flight when it was recorded.
struct DeviceEvent {
  Clock::time_point recorded;
  bool complete = false;
};

void check_index(c10::Device device) { TORCH_CHECK(device.index() <= 0, "There is one xla device, xla:0, but ", device, " was asked for"); }

// One device with one stream. Counting devices starts nothing: the autograd engine asks every backend, even for a backward on the CPU alone.
struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_index(device);
    return device_zero();
  }
  c10::Device getDevice() const override { return device_zero(); }
  void setDevice(c10::Device device) const override { check_index(device); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream&, c10::DeviceIndex, const c10::EventFlag) const override {
    translated([] { lazy::Session::get().sync("event", false); });
    if (!*event) *event = new DeviceEvent;
    *static_cast<DeviceEvent*>(*event) = {Clock::now(), false};
  }
  void block(void*, const c10::Stream&) const override {}  // one stream: already in order
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<DeviceEvent*>(event); }
  void synchronizeEvent(void* event) const override {
    auto* mine = static_cast<DeviceEvent*>(event);
    if (!mine || mine->complete) return;
    translated([] { lazy::Session::get().wait_all(); });
    *mine = {Clock::now(), true};
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "both events must be recorded before the time between them is asked for");
    synchronizeEvent(first);
    synchronizeEvent(second);
    return std::chrono::duration<double, std::milli>(static_cast<DeviceEvent*>(second)->recorded - static_cast<DeviceEvent*>(first)->recorded).count();
  }
  bool queryStream(const c10::Stream&) const override {
    synchronizeDevice(0);
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override { synchronizeDevice(0); }
  void synchronizeDevice(c10::DeviceIndex) const override {
    translated([] { lazy::Session::get().sync("synchronize", true); });
  }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device_zero()); }
};

struct Hooks final : at::XLAHooksInterface {
  void init() const override {}
  bool hasXLA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  std::string showConfig() const override { return "Thalweg"; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex index) const override { check_index(c10::Device(kDeviceType, index)); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    setCurrentDevice(index);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<DeviceGenerator>(false); }
};

}  // namespace

void register_device() {
  c10::SetAllocator(kDeviceType, device_allocator());
  static const c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, new DeviceGuard());
  register_hooks<Hooks>(*at::XLAHooksRegistry());
}

}  // namespace thalweg::aten
