#pragma once
// A server's protocol, as this client reads it: made from the server's table where its hash is not the client's own.
#include "src/registry/section.hpp"
#include "throng/protocol.hpp"
#include <optional>

namespace throng {

struct Agreement {
    Protocol protocol;
    std::optional<DecodeBuffers> buffers; // once the table has been read
};

} // namespace throng
