#pragma once
#include <cstdio>
#include <string>

namespace demo {

/// printf into a string, of 511 characters at most.
std::string text_of(const char* pattern, auto... values) {
    char line[512];
    std::snprintf(line, sizeof line, pattern, values...);
    return line;
}

} // namespace demo
