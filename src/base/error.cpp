#include "throng/base.hpp"

namespace throng {

const char* to_string(Error error) {
    switch (error) {
    case Error::none: return "none";
    case Error::truncated: return "truncated";
    case Error::bad_value: return "bad_value";
    case Error::too_large: return "too_large";
    case Error::wrong_protocol: return "wrong_protocol";
    case Error::no_baseline: return "no_baseline";
    case Error::limit_reached: return "limit_reached";
    case Error::unsupported: return "unsupported";
    case Error::io: return "io";
    case Error::no_connection: return "no_connection";
    case Error::unauthorized: return "unauthorized";
    }
    return "unknown";
}

const char* version() { return THRONG_VERSION; }

} // namespace throng
