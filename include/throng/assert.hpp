#pragma once
// Assertions for misuse of the API and for internal invariants. On by default in every build type; the level is the
// library's own (-Dasserts=off|on|slow) and a host may define THRONG_ASSERT_LEVEL for the inline parts.

#ifndef THRONG_ASSERT_LEVEL
#define THRONG_ASSERT_LEVEL 1
#endif

namespace throng {
/// Called with the failed expression. If it returns, the process traps; it may throw or longjmp (tests do).
using AssertHandler = void (*)(const char* expression, const char* file, int line);
/// Replaces the handler and returns the previous one. Thread rule: call before any other thread uses the library.
AssertHandler set_assert_handler(AssertHandler handler);
namespace detail {
/// Never returns, unless the handler throws.
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
} // namespace detail
} // namespace throng

#if THRONG_ASSERT_LEVEL >= 1
#define THRONG_ASSERT(expression) ((expression) ? (void)0 : ::throng::detail::assert_failed(#expression, __FILE__, __LINE__))
#else
#define THRONG_ASSERT(expression) ((void)0)
#endif
#if THRONG_ASSERT_LEVEL >= 2
#define THRONG_ASSERT_SLOW(expression) THRONG_ASSERT(expression)
#else
#define THRONG_ASSERT_SLOW(expression) ((void)0)
#endif
