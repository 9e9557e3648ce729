#pragma once
// The unit program's operator new counts; tests of "no allocation" compare the count before and after.
#include "throng/base.hpp"

namespace throng::tests {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define THRONG_TESTS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define THRONG_TESTS_SANITIZED 1
#endif
#endif

/// False in sanitizer builds: they bring an operator new of their own. Skip such cases there, visibly:
/// TEST_CASE("..." * doctest::skip(!throng::tests::counts_allocations)).
#ifdef THRONG_TESTS_SANITIZED
inline constexpr bool counts_allocations = false;
#else
inline constexpr bool counts_allocations = true;
#endif

/// Calls of any operator new in this process so far, on any thread.
u64 allocation_count();

} // namespace throng::tests
