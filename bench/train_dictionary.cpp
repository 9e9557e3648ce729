// Trains the dictionary that the bench program uses for the synthetic scenarios, on full states of a world with another seed than any
// run that is scored. usage: train_dictionary FILE [BYTES]
#include "bench/scenarios.hpp"
#include "src/registry/section.hpp"
#include "src/server/state.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include "throng/wire.hpp"
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <zdict.h>
#include <zstd.h>

using namespace throng;

namespace {

constexpr u64 training_seed = 90'001;
constexpr u32 ticks = 60, sections_max = 6000, lanes_min = 16;

/// Appends the wide body of a payload that zstd was forced on (docs/wire.md 2.1).
void append_wide_body(Bytes payload, std::vector<std::byte>& bodies, std::vector<std::size_t>& sizes) {
    u32 raw_bytes = 0, noise_bytes = 0;
    payload = payload.subspan(1);
    if (read_varint(payload, raw_bytes) != Error::none || read_varint(payload, noise_bytes) != Error::none)
        return;
    payload = payload.subspan(noise_bytes);
    std::vector<std::byte> frame = {std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
    frame.insert(frame.end(), payload.begin(), payload.end());
    const std::size_t at = bodies.size();
    bodies.resize(at + raw_bytes);
    const std::size_t got = ZSTD_decompress(bodies.data() + at, raw_bytes, frame.data(), frame.size());
    if (got == raw_bytes)
        sizes.push_back(raw_bytes);
    else
        bodies.resize(at);
}

} // namespace

int main(int count, char** values) {
    const std::size_t bytes = count > 2 ? std::strtoul(values[2], nullptr, 10) : 1024;
    if (count < 2 || bytes < 256) {
        std::fputs("usage: train_dictionary FILE [BYTES]\n", stderr);
        return 2;
    }
    const scenarios::Scenario& scenario = *scenarios::find_scenario("dispersed");
    Protocol protocol({.tick_hz = scenario.tick_hz});
    scenarios::add_components(protocol);
    if (protocol.finish() != Error::none)
        return 1;
    World world;
    scenarios::SyntheticMotion motion(scenario, training_seed);
    const ExecutorHandle executor = make_serial_executor();
    motion.populate(world, *executor);
    LoopbackNetwork network({.client_max = 1});
    Server server(world, protocol, network.server(), {.cell_size = scenario.cell_m, .radius_min = scenario.radius_m});
    SectionScratch scratch({}, default_allocator());
    std::vector<std::byte> out(section_bytes_max), bodies;
    std::vector<std::size_t> sizes;
    ServerState& state = server.state();
    for (u32 tick = 1; tick <= ticks && sizes.size() < sections_max; ++tick) {
        motion.step(world, *executor);
        server.tick(TimeUs(tick) * 50'000);
        for (u32 number = tick % 15; tick > 15 && number < state.mirror.chunk_count(); number += 15) {
            const Chunk& chunk = state.mirror.chunk(number);
            // Views see whole cells or parts of them.
            const u64 masks[] = {chunk.alive, chunk.alive & 0x5f3759df5f3759dfu};
            for (const u64 lanes : masks) {
                if (static_cast<u32>(std::popcount(lanes)) < lanes_min)
                    continue;
                EncodeInput input;
                input.layout = &state.layout;
                input.occupants = chunk.occupants;
                input.current = state.mirror.present(chunk);
                input.opaque = chunk.opaque;
                input.lanes = lanes;
                input.tick = state.tick;
                input.spatial = chunk.spatial;
                input.origin[0] = chunk.origin[0];
                input.origin[1] = chunk.origin[1];
                input.cell_steps = static_cast<u32>(state.grid.cell_steps());
                if (const EncodeResult result = encode_section(input, Compression::always, scratch, out); result.zstd)
                    append_wide_body({out.data(), result.bytes}, bodies, sizes);
            }
        }
    }
    std::vector<std::byte> dictionary(bytes);
    const std::size_t made =
        ZDICT_trainFromBuffer(dictionary.data(), bytes, bodies.data(), sizes.data(), static_cast<unsigned>(sizes.size()));
    if (ZDICT_isError(made)) {
        std::fprintf(stderr, "train_dictionary: %s\n", ZDICT_getErrorName(made));
        return 1;
    }
    std::FILE* file = std::fopen(values[1], "wb");
    if (!file || std::fwrite(dictionary.data(), 1, made, file) != made || std::fclose(file) != 0) {
        std::fprintf(stderr, "train_dictionary: cannot write %s\n", values[1]);
        return 2;
    }
    std::printf("%zu sections, %zu bytes of wide bodies: a dictionary of %zu bytes\n", sizes.size(), bodies.size(), made);
    return 0;
}
