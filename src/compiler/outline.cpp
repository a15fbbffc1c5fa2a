// Fusion as a list of groups.
#include "compiler/outline.h"

#include "compiler/compiler.h"
#include "compiler/division.h"

namespace thalweg::compiler {

std::vector<OutlineGroup> outline(ir::Function& function, const ir::Module* module) {
  const Options options;
  exec::ExecutableInfo info;
  const Division division = divide(function, options, module, info);
  std::vector<OutlineGroup> groups;
  for (const codegen::Work& work : division.fusion.works) {
    OutlineGroup group;
    if (work.is_nest()) {
      for (const ir::Value* member : work.nest.members)
        if (group.ops.empty() || group.ops.back() != member->def) group.ops.push_back(member->def);
    } else {
      group.kind = division.products->count(work.op) ? OutlineGroup::Kind::Product : OutlineGroup::Kind::Call;
      group.ops.push_back(work.op);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace thalweg::compiler
