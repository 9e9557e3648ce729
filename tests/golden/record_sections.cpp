// Prints a golden file (format: tools/wire_check.py) of one client that joins, follows three chunks for a while, loses and
// regains lanes. Made with the section codec alone, without a server, so that it covers what a scenario rarely does.
#include "tests/support/encode_blocks.hpp"
#include "src/wire/masks.hpp"
#include "tests/golden/golden_print.hpp"
#include "tests/registry/section_fixture.hpp"
#include <cstdio>

using namespace section_test;

namespace {

constexpr u32 cell_steps = 6000;

struct Message {
    std::vector<std::byte> bytes;
    bool zstd = false;

    void integer(u64 value, u32 count) {
        for (u32 i = 0; i < count; ++i)
            bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    void varint(u32 value) {
        std::byte out[varint_bytes_max];
        bytes.insert(bytes.end(), out, out + write_varint(out, value));
    }
    void print() const {
        std::printf("{\"zstd\": %s, \"message\": \"", zstd ? "true" : "false");
        golden::print_hex(bytes);
        std::printf("\"}\n");
    }
};

// Takes everything of `lanes` back to what it was in `from`.
void keep_lanes(State& state, const State& from, u64 lanes) {
    const Layout& layout = *state.layout;
    for (u32 c = 0; c < layout.component_count; ++c) {
        BlockHeader& head = header(state.block(c));
        const BlockHeader& before = header(from.block(c));
        head.present = (head.present & ~lanes) | (before.present & lanes);
        for (u32 plane = 0; plane < 2; ++plane)
            head.counter[plane] = (head.counter[plane] & ~lanes) | (before.counter[plane] & lanes);
        for (u32 lane = 0; lane < lane_count; ++lane) {
            if ((lanes >> lane & 1) == 0)
                continue;
            state.text[c][lane] = from.text[c][lane];
            state.opaque[c].changed[lane] = from.opaque[c].changed[lane];
            for (u32 i = 0; i < layout.components[c].column_count; ++i) {
                const Column& column = layout.columns[layout.components[c].first_column + i];
                set_element(state, column, lane, get_element(from.block(c), column, lane));
            }
        }
    }
}

// A chunk with all its versions: version i is the state after message i.
struct Chunk {
    u32 number = 0;
    std::vector<State> versions;
    std::vector<Tick> ticks;
};

class Recorder {
public:
    Recorder() : scratch_(text_bytes(rich_dictionary), default_allocator()), out_(section_bytes_max) {}

    void run() {
        golden::print_protocol(test_.layout, cell_steps, text_bytes(rich_dictionary));
        Message hello, welcome;
        hello.integer(1, 1), hello.integer(wire_format_version, 4);
        hello.integer(0x0123456789abcdef, 8), hello.integer(0xfedcba9876543210, 8), hello.print();
        welcome.integer(2, 1), welcome.integer(0x0123456789abcdef, 8), welcome.integer(0xfedcba9876543210, 8);
        welcome.integer(tick_, 4), welcome.integer(20, 2);
        welcome.integer(cell_steps, 4), welcome.print();
        join();
        for (u32 step = 0; step < 14; ++step)
            update(step);
        lose_and_regain();
        Message ack;
        ack.integer(5, 1), ack.integer(1, 1), ack.integer(id_, 2), ack.integer(0xffff, 8);
        ack.varint(1), ack.integer(id_, 2), ack.varint(300);
        ack.integer(1, 1), ack.integer(tick_, 4), ack.integer(0xfeedfacecafebeef, 8), ack.print();
    }

private:
    Message state_message(u32 sections) {
        Message message;
        message.integer(4, 1), message.integer(++id_, 2), message.integer(tick_, 4), message.integer(sections ? 3 : 255, 1);
        previous_ = 0;
        return message;
    }
    void add_section(Message& message, Chunk& chunk, u64 lanes, u32 baseline_version, bool full, Compression compression, u64 gone) {
        State& current = chunk.versions.back();
        BlockInput input;
        input.layout = &test_.layout;
        input.current = current.view();
        input.opaque = current.opaque_pointers.data();
        input.lanes = lanes;
        input.tick = tick_;
        if (full) {
            input.spatial = chunk.number != 9;
            input.origin[0] = static_cast<i32>(chunk.number * cell_steps);
            input.origin[1] = -static_cast<i32>(5 * cell_steps);
            input.cell_steps = cell_steps;
        } else {
            input.baseline = chunk.versions[baseline_version].view();
            input.baseline_tick = chunk.ticks[baseline_version];
        }
        EncodeResult result;
        if (lanes != 0)
            result = encode_blocks(input, compression, scratch_, out_);
        message.zstd |= compression != Compression::never;
        message.varint(chunk.number - previous_);
        previous_ = chunk.number;
        message.varint(result.bytes << 1 | (gone != 0));
        if (gone != 0) {
            std::byte mask[byte_mask_bytes_max];
            message.bytes.insert(message.bytes.end(), mask, mask + write_byte_mask(mask, gone));
        }
        message.bytes.insert(message.bytes.end(), out_.begin(), out_.begin() + result.bytes);
    }

    void join() {
        const u64 alive[3] = {~u64{0}, 0x0000'0fff'f0ff'ff11u, 0x8000'0000'0010'0002u};
        const u32 numbers[3] = {0, 9, 300};
        for (u32 i = 0; i < 3; ++i) {
            Chunk& chunk = chunks_[i];
            chunk.number = numbers[i];
            chunk.versions.emplace_back(test_.layout);
            fill_random(random_, chunk.versions.back(), alive[i], tick_);
            chunk.ticks.push_back(tick_);
        }
        const Compression compressions[2] = {Compression::never, Compression::always};
        for (const Compression compression : compressions) {
            Message message = state_message(3);
            for (Chunk& chunk : chunks_)
                add_section(message, chunk, chunk.versions.back().occupants.alive, 0, true, compression, 0);
            message.print();
        }
    }

    // Some lanes of each chunk change and are sent against one of the earlier versions.
    void update(u32 step) {
        tick_ += step == 9 ? 200 : 1 + random_.below(3); // once long ago: extrapolation stops
        Message message = state_message(3);
        for (Chunk& chunk : chunks_) {
            const State before = chunk.versions.back();
            const u64 alive = before.occupants.alive;
            u64 lanes = step % 3 == 0 ? alive : alive & random_.next() & random_.next();
            if (lanes == 0)
                lanes = alive & ~(alive - 1);
            chunk.versions.push_back(before);
            chunk.ticks.push_back(tick_);
            State& now = chunk.versions.back();
            mutate(random_, now, tick_);
            keep_lanes(now, before, ~lanes);
            const u32 newest = static_cast<u32>(chunk.versions.size()) - 2;
            const u32 baseline = newest - std::min(newest, random_.below(4));
            add_section(message, chunk, lanes, baseline, false, step % 4 == 3 ? Compression::always : Compression::never, 0);
        }
        message.print();
        if (step == 5)
            tick_ += 1, state_message(0).print(); // a heartbeat
    }

    void lose_and_regain() {
        Chunk& chunk = chunks_[0];
        tick_ += 2;
        const u64 gone = 0xff00'0000'0000'0f01u;
        chunk.versions.push_back(State(chunk.versions.back()));
        chunk.ticks.push_back(tick_);
        State& left = chunk.versions.back();
        left.occupants.alive &= ~gone;
        for (u32 c = 0; c < test_.layout.component_count; ++c)
            for (u32 lane = 0; lane < lane_count; ++lane)
                if (gone >> lane & 1)
                    remove(left, c, lane);
        Message lost = state_message(1);
        add_section(lost, chunk, 0xf0, static_cast<u32>(chunk.versions.size()) - 2, false, Compression::never, gone);
        add_section(lost, chunks_[2], 0, 0, false, Compression::never, 0x8000'0000'0000'0002u);
        lost.print();

        tick_ += 2;
        chunk.versions.push_back(State(left));
        chunk.ticks.push_back(tick_);
        State& back = chunk.versions.back();
        State others(test_.layout);
        fill_random(random_, others, gone, tick_);
        back.occupants.alive |= gone;
        for (u32 lane = 0; lane < lane_count; ++lane)
            if (gone >> lane & 1)
                back.occupants.net_id[lane] = others.occupants.net_id[lane];
        keep_lanes(back, others, gone);
        Message regained = state_message(2);
        add_section(regained, chunk, gone, 0, true, Compression::never, 0);
        add_section(regained, chunk, 0xff00f0, static_cast<u32>(chunk.versions.size()) - 3, false, Compression::never, 0);
        regained.print();
        tick_ += 1;
        chunk.versions.push_back(State(back));
        chunk.ticks.push_back(tick_);
        mutate(random_, chunk.versions.back(), tick_);
        Message all = state_message(1);
        add_section(all, chunk, ~u64{0}, static_cast<u32>(chunk.versions.size()) - 2, false, Compression::never, 0);
        all.print();
    }

    TestLayout test_ = rich_layout();
    SectionScratch scratch_;
    std::vector<std::byte> out_;
    Random random_{2024};
    Chunk chunks_[3];
    Tick tick_ = 0xffff'fff8u; // wraps soon
    u16 id_ = 0;
    u32 previous_ = 0;
};

} // namespace

int main() { Recorder().run(); }
