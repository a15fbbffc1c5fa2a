// Test doubles: how other allocators decide when freed memory may be reused. Each must be caught.
#include <limits>

#include "runtime/block.h"
#include "runtime/lane.h"
#include "runtime/rules.h"
#include "support/error.h"
#include "tests/soak/program.h"

namespace thalweg::soak {
namespace {

using runtime::Block;
using runtime::Frontier;

// Blind to streams: a freed block belongs to whoever asks next.
void free_blindly(Block& block) { block.set_death({}); }

// The stream that allocated it may have it at once; nobody else ever.
void free_to_owner(Block& block) {
  Frontier frontier;
  frontier.add({&block.lane->axis(), std::numeric_limits<uint64_t>::max()});
  block.set_death(frontier);
}

// Freed on the stream that allocated it: others wait for what that stream has queued.
void free_on_owner(Block& block) {
  runtime::Axis& axis = block.lane->axis();
  Frontier frontier;
  frontier.add({&axis, axis.submitted.load()});
  block.set_death(frontier);
}

}  // namespace

void use_rule(const std::string& name) {
  if (name == "frontier") {
    runtime::foreign_free_rule = nullptr;
  } else if (name == "bfc") {
    runtime::foreign_free_rule = free_blindly;
  } else if (name == "pytorch") {
    runtime::foreign_free_rule = free_to_owner;
  } else if (name == "rmm") {
    runtime::foreign_free_rule = free_on_owner;
  } else {
    raise(ErrorKind::Invalid, "no rule is called ", name, "; there are frontier, bfc, pytorch and rmm");
  }
}

}  // namespace thalweg::soak
