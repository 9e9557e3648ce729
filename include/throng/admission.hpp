#pragma once
// Who may join a server, and what a client says of itself.
#include "throng/transport.hpp"

namespace throng {

inline constexpr u32 hello_data_bytes_max = 1024; // Client::set_hello_data
inline constexpr u32 refusal_text_max = 200;      // bytes of Server::refuse's text that travel

/// Which clients may join. Those of another wire format version never do.
enum class Authorization : u8 {
    protocol, // those whose protocol is the server's, or that can read by its table
    /// All, whatever their hash: it is not looked at, and the table is not told. A client of another protocol reads by its own what is
    /// not by its own: it drops messages that it cannot read, and may show entities with wrong values. For builds that the host knows to
    /// agree.
    none,
    custom, // those that ServerEvents::on_hello says yes to, and then as `protocol`
};

/// What a client says of itself.
struct ClientHello {
    Bytes data;                 // Client::set_hello_data; hello_data_bytes_max at most. Valid during the call. Not to be trusted
    bool same_protocol = false; // its hash is the server's. If not, it may still be able to read by the server's table
};

enum class Verdict : u8 { yes, no, later };

} // namespace throng
