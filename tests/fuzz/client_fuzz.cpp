// A client and a server of its own build: see client_fuzz.hpp.
#include "tests/fuzz/client_fuzz.hpp"

throng::u64 throng::fuzz::accepted_count = 0;

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    static throng::fuzz::FuzzProtocol server;
    throng::fuzz::run_client(server.protocol, data, size_bytes);
    return 0;
}
