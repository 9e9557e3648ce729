#pragma once
// Random mode: a seed decides the sizes, the world, the network, the budget and the backend. A fault phase, then a heal
// phase with a still world and a good network, after which every client must have converged.
#include "tests/model/simulation.hpp"

namespace model {

Outcome run_seed(std::uint64_t seed, Rules rules, Variants variants, bool tracing);

} // namespace model
