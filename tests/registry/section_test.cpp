#include "section_fixture.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/zstd.hpp"
#include <doctest/doctest.h>

using namespace section_test;

namespace {

constexpr u32 cell_steps = 6000;

struct Codec {
    explicit Codec(const Layout& layout, Bytes dictionary = {})
        : scratch(dictionary, default_allocator()), buffers(layout, dictionary, default_allocator()) {}
    SectionScratch scratch;
    DecodeBuffers buffers;
    DecodedSection decoded;
    std::vector<std::byte> out = std::vector<std::byte>(section_bytes_max);
};

EncodeInput full_input(State& state, u64 lanes) {
    EncodeInput input;
    input.layout = state.layout;
    input.current = state.view();
    input.opaque = state.opaque_pointers.data();
    input.lanes = lanes;
    input.tick = 100;
    input.spatial = true;
    input.origin[0] = -3 * static_cast<i32>(cell_steps);
    input.origin[1] = 700 * static_cast<i32>(cell_steps);
    input.cell_steps = cell_steps;
    return input;
}

EncodeInput delta_input(State& state, State& baseline, u64 lanes, u32 age) {
    EncodeInput input = full_input(state, lanes);
    input.baseline = baseline.view();
    input.baseline_tick = input.tick - age;
    return input;
}

// Compares the decoded section with the state that was encoded, for its lanes.
void check_equal(const Layout& layout, const DecodedSection& decoded, State& current, State* baseline, Tick baseline_tick) {
    u32 wrong = 0;
    for (u32 lane = 0; lane < lane_count; ++lane)
        if (decoded.lanes >> lane & 1)
            wrong += decoded.occupants->net_id[lane] != current.occupants.net_id[lane];
    CHECK_MESSAGE(wrong == 0, "net ids");
    for (u32 c = 0; c < layout.component_count; ++c) {
        const LayoutComponent& info = layout.components[c];
        const std::byte* block = decoded.listed >> c & 1 ? decoded.blocks[c] : baseline ? baseline->block(c) : nullptr;
        const u64 present = block ? header(block).present & decoded.lanes : 0;
        wrong = present != (header(current.block(c)).present & decoded.lanes);
        for (u32 plane = 0; plane < 2 && block; ++plane)
            wrong += (header(block).counter[plane] & present) != (header(current.block(c)).counter[plane] & present);
        for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i)
            for (u32 lane = 0; lane < lane_count && block; ++lane)
                if (decoded.lanes >> lane & 1)
                    wrong += get_element(block, layout.columns[i], lane) != get_element(current.block(c), layout.columns[i], lane);
        if (info.opaque) {
            for (u32 lane = 0; lane < lane_count; ++lane) {
                const bool carried = decoded.opaque_carried[c] >> lane & 1;
                const bool expected = (present >> lane & 1) && (!baseline || tick_newer(current.opaque[c].changed[lane], baseline_tick) ||
                                                                !(header(baseline->block(c)).present >> lane & 1));
                wrong += carried != expected;
                if (carried) {
                    const Bytes bytes = decoded.opaque[c][lane];
                    wrong += std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != current.text[c][lane];
                }
            }
        }
        CHECK_MESSAGE(wrong == 0, "component ", c);
    }
}

// Encodes what was decoded; a canonical format gives the same bytes.
std::vector<std::byte> encode_again(Codec& codec, const Layout& layout, const DecodedSection& decoded, State* baseline, const EncodeInput& input, bool zstd) {
    State state(layout);
    state.occupants = *decoded.occupants;
    for (u32 c = 0; c < layout.component_count; ++c) {
        const std::byte* block = decoded.listed >> c & 1 ? decoded.blocks[c] : baseline ? baseline->block(c) : nullptr;
        if (block)
            std::memcpy(state.block(c), block, layout.components[c].block_bytes);
        for (u32 lane = 0; lane < lane_count; ++lane) {
            const bool carried = decoded.opaque_carried[c] >> lane & 1;
            state.opaque[c].changed[lane] = carried ? input.tick : input.baseline_tick;
            if (carried)
                state.text[c][lane].assign(reinterpret_cast<const char*>(decoded.opaque[c][lane].data()), decoded.opaque[c][lane].size());
        }
    }
    EncodeInput again = input;
    again.current = state.view();
    again.opaque = state.opaque_pointers.data();
    again.lanes = decoded.lanes;
    again.spatial = decoded.full ? decoded.spatial : input.spatial;
    std::vector<std::byte> out(section_bytes_max);
    const EncodeResult result = encode_section(again, zstd ? Compression::always : Compression::never, codec.scratch, out);
    out.resize(result.bytes);
    return out;
}

// One layout, a full section and some deltas, all compressions.
void round_trips(u64 seed) {
    CAPTURE(seed);
    Random random{seed};
    const TestLayout test = random_layout(random);
    const Layout& layout = test.layout;
    const std::string dictionary = random.chance(50) ? "the quick brown fox jumps over the lazy dog" : "";
    Codec codec(layout, std::as_bytes(std::span(dictionary)));
    Codec decoder(layout, std::as_bytes(std::span(dictionary)));
    State baseline(layout);
    const u64 alive = random.chance(30) ? ~u64{0} : random.next() | 1;
    fill_random(random, baseline, alive, 50);
    State current = baseline;
    mutate(random, current, 100);
    for (u32 round = 0; round < 6; ++round) {
        const bool delta = round >= 2;
        u64 lanes = random.chance(40) ? alive : alive & random.next() & (random.chance(50) ? random.next() & random.next() : ~u64{0});
        if (lanes == 0)
            lanes = alive & ~(alive - 1);
        const u32 age = random.chance(80) ? 1 + random.below(40) : 1 + random.below(100000);
        EncodeInput input = delta ? delta_input(current, baseline, lanes, age) : full_input(current, lanes);
        if (round == 1)
            input.spatial = false;
        for (const Compression compression : {Compression::never, Compression::always, Compression::automatic}) {
            const EncodeResult result = encode_section(input, compression, codec.scratch, codec.out);
            REQUIRE(result.bytes != 0);
            CHECK((compression == Compression::automatic || result.zstd == (compression == Compression::always)));
            const Bytes payload{codec.out.data(), result.bytes};
            SectionHead head;
            REQUIRE(read_section_head(payload, head) == Error::none);
            CHECK(head.full == !delta);
            CHECK(head.baseline_age == (delta ? age : 0));
            const Error error = decode_section(payload, cell_steps, input.baseline, lanes, decoder.buffers, decoder.decoded);
            REQUIRE(error == Error::none);
            CHECK(decoder.decoded.lanes == lanes);
            CHECK(decoder.decoded.spatial == (!delta && input.spatial));
            if (!delta && input.spatial)
                CHECK((decoder.decoded.origin[0] == input.origin[0] && decoder.decoded.origin[1] == input.origin[1]));
            check_equal(layout, decoder.decoded, current, delta ? &baseline : nullptr, input.baseline_tick);
            const std::vector<std::byte> again = encode_again(codec, layout, decoder.decoded, delta ? &baseline : nullptr, input, result.zstd);
            const bool same = again.size() == payload.size() && std::memcmp(again.data(), payload.data(), again.size()) == 0;
            CHECK(same);
        }
    }
}

} // namespace

TEST_SUITE("registry") {

TEST_CASE("sections: random layouts, states and lanes survive the round trip and encode again to the same bytes") {
    for (u64 seed = 1; seed <= 300; ++seed)
        round_trips(seed);
}

}
