// The simulated device: the common suite.
#include "runtime/sim/sim_device.h"

#include "tests/runtime/conformance.h"

namespace thalweg::runtime::sim {
namespace {

using conformance::Conformance;
using conformance::Kind;

INSTANTIATE_TEST_SUITE_P(Sim, Conformance, testing::Values(Kind{"sim", [] { return make_device(); }, false}), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace thalweg::runtime::sim
