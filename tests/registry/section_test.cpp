#include "tests/support/encode_blocks.hpp"
#include "section_fixture.hpp"
#include "src/wire/kernels.hpp"
#include "throng/wire.hpp"
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

BlockInput full_input(State& state, u64 lanes) {
    BlockInput input;
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

BlockInput delta_input(State& state, State& baseline, u64 lanes, u32 age) {
    BlockInput input = full_input(state, lanes);
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
std::vector<std::byte> encode_again(Codec& codec, const Layout& layout, const DecodedSection& decoded, State* baseline,
                                    const BlockInput& input, bool zstd) {
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
    BlockInput again = input;
    again.current = state.view();
    again.opaque = state.opaque_pointers.data();
    again.lanes = decoded.lanes;
    again.spatial = decoded.full ? decoded.spatial : input.spatial;
    std::vector<std::byte> out(section_bytes_max);
    const EncodeResult result = encode_blocks(again, zstd ? Compression::always : Compression::never, codec.scratch, out);
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
        BlockInput input = delta ? delta_input(current, baseline, lanes, age) : full_input(current, lanes);
        if (round == 1)
            input.spatial = false;
        for (const Compression compression : {Compression::never, Compression::always, Compression::automatic}) {
            const EncodeResult result = encode_blocks(input, compression, codec.scratch, codec.out);
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
            const std::vector<std::byte> again =
                encode_again(codec, layout, decoder.decoded, delta ? &baseline : nullptr, input, result.zstd);
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

TEST_CASE("sections: both instruction levels write the same bytes") {
    for (u64 seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        Random random{seed};
        const TestLayout test = random_layout(random);
        Codec codec(test.layout);
        State baseline(test.layout);
        fill_random(random, baseline, seed % 3 == 0 ? ~u64{0} : random.next() | 1, 50);
        State current = baseline;
        mutate(random, current, 100);
        for (u32 round = 0; round < 4; ++round) {
            const u64 alive = current.occupants.alive;
            const u64 lanes = round % 2 == 0 || (alive & random.next()) == 0 ? alive : alive & random.next();
            if (lanes == 0)
                continue;
            const BlockInput input = round < 2 ? full_input(current, lanes) : delta_input(current, baseline, lanes, 1 + random.below(40));
            REQUIRE(force_kernel_level(KernelLevel::baseline));
            const u32 bytes = encode_blocks(input, Compression::automatic, codec.scratch, codec.out).bytes;
            const std::vector<std::byte> first(codec.out.begin(), codec.out.begin() + bytes);
            if (!force_kernel_level(KernelLevel::v3))
                continue;
            REQUIRE(encode_blocks(input, Compression::automatic, codec.scratch, codec.out).bytes == bytes);
            CHECK(std::memcmp(codec.out.data(), first.data(), bytes) == 0);
        }
        REQUIRE(force_kernel_level(best_kernel_level()));
    }
}

TEST_CASE("sections: hand-checked bytes") {
    // Two 16-bit fields; lanes 0 and 3. See docs/wire.md 2.2 for each part.
    TestLayout test;
    test.component();
    test.range(2, -1000, 1000);
    test.range(2, -1000, 1000);
    Codec codec(test.layout);
    State state(test.layout);
    state.occupants.alive = 0b1001;
    state.occupants.net_id[0] = NetId::make(5, 2);
    state.occupants.net_id[3] = NetId::make(6, 2);
    header(state.block(0)).present = 0b1001;
    set_element(state, test.layout.columns[0], 0, 1);
    set_element(state, test.layout.columns[0], 3, -3);
    set_element(state, test.layout.columns[1], 0, 4);
    set_element(state, test.layout.columns[1], 3, 4);
    BlockInput input = full_input(state, 0b1001);
    input.spatial = false;

    std::vector<std::byte> expected(32);
    const auto encoded = [&] {
        const u32 bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
        return std::vector<std::byte>(codec.out.begin(), codec.out.begin() + bytes);
    };
    BitWriter full(expected);
    full.put(1, 8);       // flags: full
    full.put(1, 1);       // mask as gaps
    full.put(1, 6);       // two lanes
    full.put(0, 3);       // k = bits(11 * 2 / 32) = 0
    full.put(0b0'1'1'0, 4); // gap 0: "0"; gap 2: "110", first bit lowest
    full.put(0, 1);       // not spatial
    full.put(3, 6), full.put(5, 3); // smallest index 5
    full.put(1, 6), full.put(0b10, 2); // width 1: 0, 1
    full.put(1, 1), full.put(2, 5), full.put(2, 2); // same generation 2
    full.put(0, 1);       // no shards
    full.put(1, 1);       // listed
    full.put(1, 1);       // all
    full.put(0, 1);       // counters are 0
    full.put(0, 1);       // not equal
    full.put(3, 5), full.put(0, 1); // width 3, dense
    full.put(2, 3), full.put(5, 3); // zigzag 1, -3
    full.put(1, 1), full.put(4, 5), full.put(8, 4); // equal: zigzag 4 is 8, four bits long
    expected.resize(full.finish());
    CHECK(encoded() == expected);

    State baseline = state;
    set_element(state, test.layout.columns[0], 3, -1);
    input = delta_input(state, baseline, 0b1001, 300);
    expected.assign(32, std::byte{0});
    BitWriter delta(expected);
    delta.put(0, 8);
    delta.put(0xac, 8), delta.put(0x02, 8); // age 300
    delta.put(1, 1), delta.put(1, 6), delta.put(0, 3), delta.put(0b0110, 4);
    delta.put(1, 1);      // listed
    delta.put(0, 1);      // same structure
    delta.put(3, 5), delta.put(1, 1), delta.put(0b10, 2), delta.put(4, 3); // sparse (2 + 3 < 6): +2 is 4
    delta.put(0, 5);      // second column: width 0
    expected.resize(delta.finish());
    CHECK(encoded() == expected);
}

TEST_CASE("sections: what is kept") {
    TestLayout test;
    test.component();
    test.range(2, -1000, 1000);
    test.component();
    test.range(2, -1000, 1000);
    test.component();
    test.range(2, -1000, 1000);
    State state(test.layout);
    const u64 lanes = 0b1011'0001;
    state.occupants.alive = header(state.block(0)).present = lanes;
    for (u32 lane = 0; lane < 8; ++lane)
        state.occupants.net_id[lane] = NetId::make(7 + lane, 2);
    Codec codec(test.layout);
    u64 kept[3] = {0, lanes, 0b0010'0001}; // none, all, some
    BlockInput input = full_input(state, lanes);
    input.kept = kept;
    for (const Compression compression : {Compression::never, Compression::always}) {
        const u32 bytes = encode_blocks(input, compression, codec.scratch, codec.out).bytes;
        REQUIRE(bytes > 0);
        CHECK((codec.out[0] & std::byte{4}) != std::byte{0});
        const Bytes encoded = Bytes(codec.out).first(bytes);
        REQUIRE(decode_section(encoded, cell_steps, {}, 0, codec.buffers, codec.decoded) == Error::none);
        CHECK(codec.decoded.kept == 0b110);
        CHECK(codec.decoded.kept_lanes[1] == lanes);
        CHECK(codec.decoded.kept_lanes[2] == 0b0010'0001);
        CHECK(codec.decoded.listed == 1);
        for (u32 shorter = 0; shorter < bytes; ++shorter)
            CHECK(decode_section(encoded.first(shorter), cell_steps, {}, 0, codec.buffers, codec.decoded) != Error::none);
    }
    // Lanes that are not in the section keep nothing, and without any nothing is said.
    input.lanes = 0b1000'0000;
    kept[1] = 0b0011'0001;
    const u32 plain_bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
    CHECK(codec.out[0] == std::byte{1});
    codec.out[0] = std::byte{5}; // then the next bits are read as what is kept, and it does not come out even
    CHECK(decode_section(Bytes(codec.out).first(plain_bytes), cell_steps, {}, 0, codec.buffers, codec.decoded) != Error::none);
    // A lane has what it keeps: no encoder writes that.
    input.lanes = lanes;
    kept[0] = 0b0001'0000;
    const u32 bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
    CHECK(decode_section(Bytes(codec.out).first(bytes), cell_steps, {}, 0, codec.buffers, codec.decoded) == Error::bad_value);
    codec.out[0] = std::byte{4}; // of a delta
    CHECK(decode_section(Bytes(codec.out).first(bytes), cell_steps, {}, 0, codec.buffers, codec.decoded) == Error::bad_value);
}

TEST_CASE("sections: truncated anywhere is an error, and damaged bytes are an error or a section that encodes again") {
    Random random{99};
    const TestLayout test = rich_layout();
    const Bytes dictionary = text_bytes(rich_dictionary);
    Codec codec(test.layout, dictionary), decoder(test.layout, dictionary);
    State baseline(test.layout);
    fill_random(random, baseline, 0xffff'ff0f'ffff'fff1u, 50);
    State current = baseline;
    mutate(random, current, 100);
    u32 accepted = 0, refused = 0;
    for (u32 round = 0; round < 12; ++round) {
        const u64 alive = current.occupants.alive;
        const u64 lanes = round % 3 == 0 ? alive : alive & (u64{0x0041'0821'0410'8010} << round % 7);
        const bool delta = round % 2 != 0;
        const BlockInput input = delta ? delta_input(current, baseline, lanes, 5) : full_input(current, lanes);
        const Compression compression = round % 4 < 2 ? Compression::never : Compression::always;
        const u32 bytes = encode_blocks(input, compression, codec.scratch, codec.out).bytes;
        REQUIRE(bytes != 0);
        const std::vector<std::byte> good(codec.out.begin(), codec.out.begin() + bytes);
        // Exact allocations, so that a sanitizer sees a read past the end.
        for (u32 shorter = 0; shorter < bytes; ++shorter) {
            const std::vector<std::byte> cut(good.begin(), good.begin() + shorter);
            const Error error = decode_section(cut, cell_steps, input.baseline, alive, decoder.buffers, decoder.decoded);
            refused += error != Error::none;
            if (error == Error::none)
                FAIL_CHECK("accepted ", shorter, " of ", bytes);
        }
        for (u32 i = 0; i < 400; ++i) {
            std::vector<std::byte> damaged = good;
            const u32 changes = 1 + random.below(3);
            for (u32 change = 0; change < changes; ++change)
                damaged[random.below(bytes)] ^= static_cast<std::byte>(1u << random.below(8));
            if (decode_section(damaged, cell_steps, input.baseline, alive, decoder.buffers, decoder.decoded) != Error::none)
                continue;
            ++accepted;
            const DecodedSection& decoded = decoder.decoded;
            CHECK((decoded.lanes & ~(decoded.full ? ~u64{0} : alive)) == 0);
            if (decoded.baseline_age == 0 || decoded.baseline_age == 5)
                CHECK(!encode_again(codec, test.layout, decoded, decoded.full ? nullptr : &baseline,
                                    decoded.full ? full_input(current, lanes) : delta_input(current, baseline, lanes, 5), false).empty());
        }
    }
    CHECK(refused > 1000);
    CHECK(accepted > 10);
}

TEST_CASE("sections: baselines that are not held, lanes without an occupant, and values outside a field's range") {
    TestLayout test;
    test.component();
    test.range(2, -1000, 1000);
    test.component();
    test.column(2, FieldKind::integer, FieldType::boolean);
    Codec codec(test.layout);
    State baseline(test.layout);
    baseline.occupants.alive = ~u64{0};
    for (u32 c = 0; c < 2; ++c)
        header(baseline.block(c)).present = ~u64{0};
    State current = baseline;
    for (u32 lane = 0; lane < lane_count; ++lane)
        set_element(current, test.layout.columns[0], lane, static_cast<i64>(lane) * 10);
    const auto decode = [&](u64 lanes, u64 held) {
        const BlockInput input = delta_input(current, baseline, lanes, 1);
        const u32 bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
        return decode_section({codec.out.data(), bytes}, cell_steps, input.baseline, held, codec.buffers, codec.decoded);
    };
    CHECK(decode(0xff, 0xff) == Error::none);
    CHECK(decode(0xff, 0x7f) == Error::no_baseline);
    CHECK(decode(0xff, 0) == Error::no_baseline);
    CHECK(decode(~u64{0}, ~u64{0}) == Error::none);
    for (const u64 lanes : {u64{0xff0}, ~u64{0}}) { // lane by lane, and all at once
        set_element(current, test.layout.columns[0], 9, 1001);
        CHECK(decode(lanes, ~u64{0}) == Error::bad_value);
        set_element(current, test.layout.columns[0], 9, -1000);
        CHECK(decode(lanes, ~u64{0}) == Error::none);
        set_element(current, test.layout.columns[1], 9, 2);
        CHECK(decode(lanes, ~u64{0}) == Error::bad_value);
        set_element(current, test.layout.columns[1], 9, 1);
        CHECK(decode(lanes, ~u64{0}) == Error::none);
    }
    const BlockInput input = delta_input(current, baseline, 0xff, 1);
    const u32 bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
    baseline.occupants.alive = 0xfe;
    CHECK(decode_section({codec.out.data(), bytes}, cell_steps, input.baseline, ~u64{0}, codec.buffers, codec.decoded) == Error::bad_value);
}

TEST_CASE("sections: a body that claims to be huge, another size, or trailing bytes is refused") {
    Random random{4};
    const TestLayout test = rich_layout();
    Codec codec(test.layout);
    State state(test.layout);
    fill_random(random, state, ~u64{0}, 50);
    const BlockInput input = full_input(state, ~u64{0});
    const auto decode = [&](const std::vector<std::byte>& bytes) {
        return decode_section(bytes, cell_steps, {}, 0, codec.buffers, codec.decoded);
    };
    u32 bytes = encode_blocks(input, Compression::never, codec.scratch, codec.out).bytes;
    std::vector<std::byte> packed(codec.out.begin(), codec.out.begin() + bytes);
    CHECK(decode(packed) == Error::none);
    packed.push_back(std::byte{0});
    CHECK(decode(packed) == Error::bad_value);

    const EncodeResult result = encode_blocks(input, Compression::always, codec.scratch, codec.out);
    REQUIRE(result.zstd);
    std::vector<std::byte> zstd(codec.out.begin(), codec.out.begin() + result.bytes);
    CHECK(decode(zstd) == Error::none);
    Bytes rest = Bytes(zstd).subspan(1);
    u32 raw_bytes = 0;
    REQUIRE(read_varint(rest, raw_bytes) == Error::none);
    for (const u32 claim : {raw_bytes - 1, raw_bytes + 1, section_bytes_max, section_bytes_max + 1, 0u}) {
        std::vector<std::byte> other{zstd[0]};
        std::byte varint[varint_bytes_max];
        other.insert(other.end(), varint, varint + write_varint(varint, claim));
        other.insert(other.end(), rest.begin(), rest.end());
        CHECK(decode(other) == (claim > section_bytes_max ? Error::too_large : Error::bad_value));
    }
    // A run of 128 KiB in eight bytes: expands to its bound and no further.
    const std::vector<std::byte> bomb = {std::byte{3}, std::byte{0x80}, std::byte{0x80}, std::byte{8}, std::byte{0}, std::byte{0},
                                         std::byte{0x38}, std::byte{3}, std::byte{0}, std::byte{0x10}, std::byte{0}};
    CHECK(decode(bomb) == Error::bad_value);
}

TEST_CASE("sections: an output that is too small gives 0 bytes and is not written past its end") {
    Random random{12};
    const TestLayout test = rich_layout();
    Codec codec(test.layout);
    State state(test.layout);
    fill_random(random, state, ~u64{0}, 50);
    const BlockInput input = full_input(state, 0xffff);
    for (const Compression compression : {Compression::never, Compression::always, Compression::automatic}) {
        const u32 bytes = encode_blocks(input, compression, codec.scratch, codec.out).bytes;
        std::vector<std::byte> small(bytes, std::byte{0x5a});
        const EncodeResult result = encode_blocks(input, compression, codec.scratch, std::span(small).first(bytes - 1));
        CHECK(small.back() == std::byte{0x5a});
        if (compression != Compression::automatic) // zstd may still fit where packed does not
            CHECK(result.bytes == 0);
        CHECK(encode_blocks(input, compression, codec.scratch, std::span(small).first(0)).bytes == 0);
    }
}

TEST_CASE("sections: neither half allocates after construction") {
    struct Counter {
        u32 calls = 0;
    } counter;
    const Allocator counting{[](void* context, std::size_t bytes, std::size_t alignment) {
                                 ++static_cast<Counter*>(context)->calls;
                                 return default_allocator().allocate(bytes, alignment);
                             },
                             [](void*, void* memory, std::size_t bytes, std::size_t alignment) {
                                 default_allocator().free(memory, bytes, alignment);
                             },
                             &counter};
    Random random{31};
    const TestLayout test = rich_layout();
    SectionScratch scratch(text_bytes(rich_dictionary), counting);
    DecodeBuffers buffers(test.layout, text_bytes(rich_dictionary), counting);
    const u32 at_construction = counter.calls;
    CHECK(at_construction > 0);
    State baseline(test.layout);
    fill_random(random, baseline, ~u64{0}, 50);
    State current = baseline;
    mutate(random, current, 100);
    std::vector<std::byte> out(section_bytes_max);
    auto decoded = std::make_unique<DecodedSection>();
    for (u32 round = 0; round < 600; ++round) { // zstd drops an oversized workspace after 128 small uses, unless it is ours
        const u64 lanes = round % 150 == 0 ? ~u64{0} : u64{1} << round % 64;
        const BlockInput input = round % 2 ? delta_input(current, baseline, lanes, 5) : full_input(current, lanes);
        const EncodeResult result = encode_blocks(input, Compression::always, scratch, out);
        REQUIRE(result.zstd);
        REQUIRE(decode_section({out.data(), result.bytes}, cell_steps, input.baseline, ~u64{0}, buffers, *decoded) == Error::none);
    }
    CHECK(counter.calls == at_construction);
}

}
