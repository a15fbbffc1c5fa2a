// The reference interpreter: what every op means, one obvious function an op, no speed.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace thalweg::interp {

// What a program may ask of its surroundings.
struct Options {
  // Called for custom_call targets that the interpreter does not know; without it they raise Error(Unsupported).
  std::function<std::vector<ir::Literal>(const ir::Op& op, std::span<const ir::Literal> operands)> custom_call;
};

// Runs `function` on `inputs`, one literal an argument with the argument's type (else Error(Invalid)). `module` resolves calls and composites' decompositions.
// The program must be verified. Throws Error(Unsupported) for ops that are only parsed (dynamic, quantized, legacy), Error(Index) and Error(NotFinite) from the
// checks that programs carry. Thread-safe.
std::vector<ir::Literal> run(const ir::Module& module, const ir::Function& function, std::span<const ir::Literal> inputs, const Options& options = {});
// A function that calls no other.
std::vector<ir::Literal> run(const ir::Function& function, std::span<const ir::Literal> inputs, const Options& options = {});

// Runs `function` on replicas × partitions simulated devices at once; `inputs[d]` and the result's [d] belong to device d = replica * partitions + partition.
// Collectives meet in lockstep; devices that wait for a partner which never comes raise Error(Invalid).
std::vector<std::vector<ir::Literal>> run_parallel(const ir::Module& module, const ir::Function& function, const std::vector<std::vector<ir::Literal>>& inputs,
                                                   int64_t replicas, int64_t partitions, const Options& options = {});

}  // namespace thalweg::interp
