#include "throng/assert.hpp"
#include <cstdio>
#include <cstdlib>

namespace throng {
namespace {
void print_and_trap(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: throng assertion failed: %s\n", file, line, expression);
    std::abort();
}
AssertHandler current_handler = print_and_trap;
} // namespace

AssertHandler set_assert_handler(AssertHandler handler) {
    AssertHandler previous = current_handler;
    current_handler = handler ? handler : print_and_trap;
    return previous;
}

namespace detail {
void assert_failed(const char* expression, const char* file, int line) {
    current_handler(expression, file, line);
    std::abort();
}
} // namespace detail
} // namespace throng
