// The readers around sections: handshake, heads of messages and sections, acks, varints, bit streams, masks, bundles. The first byte picks
// the reader. What is accepted must be written again to the same bytes: there is one way to say each thing.
#include "src/events/typed_codec.hpp"
#include "src/registry/message.hpp"
#include "src/wire/masks.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include <vector>

using namespace throng;
using fuzz::require;

u64 throng::fuzz::accepted_count = 0;

namespace {

bool same(Bytes a, Bytes b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool hello(Bytes in) {
    Hello read;
    if (read_hello(in, read) != Error::none)
        return false;
    std::byte out[hello_bytes + hello_data_bytes_max];
    require(same(in, {out, write_hello(out, read)}));
    return true;
}

bool reject(Bytes in) {
    Reject read;
    if (read_reject(in, read) != Error::none)
        return false;
    std::byte out[2 + reject_text_max];
    require(same(in, {out, write_reject(out, read)}));
    return true;
}

/// What can be read is written again to the same bytes, and read again by a second reader.
bool table(Bytes in) {
    static fuzz::FuzzProtocol fixture;
    Protocol theirs;
    const Error error = theirs.read_table(in, fixture.protocol);
    if (error != Error::none) {
        require(error != Error::wrong_protocol || theirs.problem()[0] != 0);
        return false;
    }
    require(same(in, theirs.table()));
    Protocol again;
    require(again.read_table(theirs.table(), theirs) == Error::none && again.hash() == theirs.hash());
    require(again.layout().column_count == theirs.layout().column_count);
    return true;
}

bool welcome(Bytes in) {
    Welcome read;
    if (read_welcome(in, read) != Error::none)
        return false;
    std::byte out[welcome_bytes];
    write_welcome(out, read);
    require(same(in, out));
    return true;
}

bool state(Bytes in) {
    StateHeader head;
    if (read_state_header(in, head) != Error::none)
        return false;
    std::byte head_out[header_bytes(255)];
    const u32 head_size = write_state_header(head_out, head);
    require(head_size == header_bytes(static_cast<u32>(head.userdata.size())) && same(in.first(head_size), {head_out, head_size}));
    u32 offset = head_size;
    while (offset < in.size()) {
        const u32 begin = offset;
        SectionHeader section;
        if (read_section_header(in, offset, section) != Error::none)
            return false;
        require(offset <= in.size() && offset > begin && (section.gone != 0 || !section.payload.empty()));
        std::byte out[section_header_bytes_max];
        const u32 bytes = write_section_header(out, section.chunk_step, static_cast<u32>(section.payload.size()), section.gone);
        require(same(in.subspan(begin, bytes), {out, bytes}) && offset == begin + bytes + section.payload.size());
    }
    return true;
}

bool acks(Bytes in) {
    struct Heard {
        u32 blocks = 0, unapplied = 0, hashes = 0;
    } heard;
    AckSink sink;
    sink.context = &heard;
    sink.block = [](void* h, u16, u64) { ++static_cast<Heard*>(h)->blocks; };
    sink.unapplied = [](void* h, u16, u16) { ++static_cast<Heard*>(h)->unapplied; };
    sink.hash = [](void* h, Tick, u64) { ++static_cast<Heard*>(h)->hashes; };
    const bool good = read_acks(in, sink) == Error::none;
    if (!good)
        require(heard.blocks + heard.unapplied + heard.hashes == 0);
    else
        require(heard.blocks == static_cast<u32>(in[1]) && heard.unapplied <= unapplied_sections_max && heard.hashes <= 1);
    return good;
}

bool varints(Bytes in) {
    while (!in.empty()) {
        const Bytes before = in;
        u32 value = 0;
        if (read_varint(in, value) != Error::none)
            return false;
        std::byte out[varint_bytes_max];
        const u32 bytes = write_varint(out, value);
        require(bytes == varint_bytes(value) && same(before.first(bytes), {out, bytes}) && in.size() == before.size() - bytes);
    }
    return true;
}

bool byte_masks(Bytes in) {
    u64 mask = 0;
    const Bytes before = in;
    if (read_byte_mask(in, mask) != Error::none)
        return false;
    std::byte out[byte_mask_bytes_max];
    const u32 bytes = write_byte_mask(out, mask);
    require(mask != 0 && same(before.first(before.size() - in.size()), {out, bytes}));
    return true;
}

bool lane_masks(Bytes in) {
    BitReader reader(in);
    const u64 lanes = read_lane_mask(reader);
    if (lanes == 0 || reader.failed())
        return false;
    std::byte out[16];
    BitWriter writer(out);
    write_lane_mask(writer, lanes);
    require(writer.bit_count() == in.size() * 8 - reader.bits_left());
    const u64 bits = writer.bit_count();
    require(writer.finish() != 0);
    BitReader first(in), second(out);
    for (u64 i = 0; i < bits; ++i)
        require(first.get_bit() == second.get_bit());
    return true;
}

/// Bytes say how many bits to read next; a second stream reads the same bit by bit.
bool bits(Bytes in) {
    BitReader reader(in), slow(in);
    for (const std::byte step : in) {
        const u32 count = static_cast<u32>(step) % 65;
        if (reader.failed())
            break;
        if (step == std::byte{0xff}) {
            reader.align();
            slow.align();
        } else {
            const u64 value = reader.get(count);
            u64 expected = 0;
            for (u32 i = 0; i < count; ++i)
                expected |= u64(slow.get_bit()) << i;
            require(reader.failed() ? value == 0 && slow.failed() : value == expected);
        }
        require(reader.failed() == slow.failed() && reader.bits_left() <= in.size() * 8);
    }
    return !reader.failed();
}

bool bundle(Bytes in) {
    static fuzz::FuzzProtocol fixture;
    const MessageTable& table = fixture.protocol.messages();
    ProtocolHash hash;
    if (read_bundle_head(in, hash) != Error::none)
        return false;
    bool good = true;
    while (!in.empty()) {
        const Bytes before = in;
        Item item;
        if (read_item(table, in, item) != Error::none)
            return false;
        Array<std::byte> again;
        append_item(*item.layout, item.number, item.tick, item.references, item.body, again);
        require(same(before.first(before.size() - in.size()), {again.data(), again.size()}));
        const MessageInfo& info = *item.layout->info;
        alignas(16) std::byte object[256];
        require(info.size_bytes <= sizeof object);
        info.construct(object);
        if (read_body(*item.layout, item.body, object) == Error::none) {
            Array<std::byte> body;
            // What is read is written again, or is refused as too large where references are counted at their longest.
            if (append_body(*item.layout, object, body) == Error::none && !info.has_rest)
                require(same(item.body, {body.data(), body.size()}));
        } else {
            good = false;
        }
        info.destroy(object);
    }
    return good;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size_bytes) {
    constexpr bool (*readers[])(Bytes) = {hello,      welcome,    state, acks,   varints,
                                            byte_masks, lane_masks, bits,  bundle, reject,
                                            table};
    if (size_bytes == 0)
        return 0;
    const Bytes in{reinterpret_cast<const std::byte*>(data) + 1, size_bytes - 1};
    throng::fuzz::accepted_count += readers[data[0] % std::size(readers)](in);
    return 0;
}
