// Reading debug modes: what is taken, and what is refused with which words.
#include "runtime/debug_modes.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace thalweg::runtime {
namespace {

TEST(DebugModesTest, ReadsEveryMode) {
  DebugModes modes = parse_debug_modes("sync,race,poison,redzone,unmap,quarantine=100,delay=7,deterministic");
  EXPECT_TRUE(modes.sync && modes.race && modes.poison && modes.redzone && modes.unmap && modes.deterministic);
  EXPECT_EQ(modes.quarantine, 100u);
  EXPECT_EQ(modes.delay, 7u);
  DebugModes none = parse_debug_modes(",");
  EXPECT_FALSE(none.sync || none.race || none.poison || none.redzone || none.unmap || none.deterministic || none.quarantine || none.delay);
}

TEST(DebugModesTest, RefusesTheRest) {
  for (const char* text :
       {"snyc", "sync=1", "quarantine", "quarantine=", "quarantine=0", "delay=-1", "delay=1x", "sync poison", "delay=99999999999999999999"}) {
    try {
      parse_debug_modes(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Invalid);
    }
  }
}

}  // namespace
}  // namespace thalweg::runtime
