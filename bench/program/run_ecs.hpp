#pragma once
// The ECS scenarios of the bench program: ecs_each, ecs_create and so on, one run a case.
#include "bench/program/setup.hpp"
#include <string_view>

namespace bench {

/// Names of the scenarios, "ecs" (all of them) last.
std::span<const char* const> ecs_scenarios();
bool is_ecs_scenario(std::string_view name);
/// Cases of the scenario whose names contain `filter`, medians of options.repeat rounds. In a round each case runs once, and its
/// vector loop right beside it.
std::vector<scenarios::Run> run_ecs(const Options& options, std::string_view scenario, const std::string& filter);

} // namespace bench
