#pragma once
// A server made by hand: chunks of plain values per tick, sections encoded by encode_section, messages in any order. With a
// backend that hands over exactly what a test says and keeps what the client sends.
#include "tests/support/encode_blocks.hpp"
#include "src/registry/message.hpp"
#include "src/registry/section.hpp"
#include "throng/client.hpp"
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace client_test {
using namespace throng;

struct Place {
    float x = 0, z = 0;
};
struct Life {
    i32 hp = 0;
};
struct Link {
    Entity target;
};
struct Note {
    char text[32] = {};
};
enum : u32 { place_index, life_index, link_index, note_index, lasting_index, component_count };
inline constexpr u32 cell_steps = 10000; // of 1 cm

inline u32 write_note(const void* component, std::span<std::byte> out) {
    const char* text = static_cast<const Note*>(component)->text;
    const u32 bytes = static_cast<u32>(std::strlen(text));
    if (bytes <= out.size())
        std::memcpy(out.data(), text, bytes);
    return bytes;
}
/// Refuses what starts with '!'.
inline Error read_note(void* component, std::span<const std::byte> in) {
    if (in.size() >= sizeof(Note::text) || (!in.empty() && in[0] == std::byte{'!'}))
        return Error::bad_value;
    Note note;
    if (!in.empty())
        std::memcpy(note.text, in.data(), in.size());
    *static_cast<Note*>(component) = note;
    return Error::none;
}

/// Lasting is only in some.
inline std::unique_ptr<Protocol> make_protocol(bool lasting = false) {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Life>("life").field(&Life::hp);
    protocol->component<Link>("link").field(&Link::target);
    protocol->opaque<Note>("note", 40, write_note, read_note);
    if (lasting)
        protocol->component<Lasting>("lasting");
    if (protocol->finish() != Error::none)
        std::abort();
    return protocol;
}

/// What a lane holds, in wire steps.
struct LaneValue {
    NetId id{};
    std::optional<std::array<i16, 2>> place;
    std::optional<i32> hp;
    std::optional<NetId> link;
    std::optional<std::string> note;
    Tick note_changed = 0;
    bool lasting = false;
    u8 counter[component_count] = {};
};
using Chunk = std::map<u32, LaneValue>; // by lane

/// A section to be encoded. No baseline: in full.
struct Part {
    u32 chunk = 0;
    u64 lanes = 0;
    std::optional<Tick> baseline{};
    u64 gone = 0;
};
constexpr u64 bit(u32 lane) { return u64(1) << lane; }

class FakeServer {
public:
    explicit FakeServer(const Protocol& used) : protocol(used), layout(used.layout()), scratch_(used.dictionary(), default_allocator()) {}

    /// The present state; edit it, then snapshot(tick).
    std::map<u32, Chunk> world;
    void snapshot(Tick tick) { history_[tick] = world; }

    std::vector<std::byte> welcome(Tick tick) const {
        std::vector<std::byte> out(welcome_bytes);
        write_welcome(out.data(), {protocol.hash(), tick, static_cast<u16>(protocol.tick_hz()), cell_steps});
        return out;
    }
    std::vector<std::byte> message(Tick tick, std::vector<Part> parts, u8 settled_age = 255, bool hash_wanted = false) {
        return message_with_id(next_id++, tick, parts, settled_age, hash_wanted);
    }
    std::vector<std::byte> message_with_id(u16 id, Tick tick, const std::vector<Part>& parts, u8 settled_age, bool hash_wanted) {
        std::vector<std::byte> out(state_header_bytes);
        write_state_header(out.data(), {id, tick, settled_age, hash_wanted});
        u32 previous = 0;
        for (const Part& part : parts) {
            std::vector<std::byte> payload = part.lanes ? encode(part, tick) : std::vector<std::byte>{};
            std::byte head[section_header_bytes_max];
            const u32 head_bytes = write_section_header(head, part.chunk - previous, static_cast<u32>(payload.size()), part.gone);
            previous = part.chunk;
            out.insert(out.end(), head, head + head_bytes);
            out.insert(out.end(), payload.begin(), payload.end());
        }
        return out;
    }

    /// Columns of a chunk at a tick.
    struct Image {
        OccupantBlock occupants;
        std::byte* blocks[component_count] = {};
        std::vector<std::unique_ptr<std::byte[], void (*)(std::byte*)>> memory;
        OpaqueLanes opaque{};
        ChunkState state() const { return {&occupants, blocks}; }
    };
    Image image(u32 chunk, Tick tick) const {
        static const Chunk empty;
        Image out;
        const auto& chunks = history_.at(tick);
        const Chunk& lanes = chunks.count(chunk) ? chunks.at(chunk) : empty;
        for (const auto& [lane, value] : lanes) {
            out.occupants.alive |= bit(lane);
            out.occupants.net_id[lane] = value.id;
            const auto put = [&, lane_number = lane, &v = value](u32 component, std::initializer_list<i64> elements) {
                const LayoutComponent& info = layout.components[component];
                if (!out.blocks[component]) {
                    auto* block = static_cast<std::byte*>(::operator new[](info.block_bytes, std::align_val_t{64}));
                    std::memset(block, 0, info.block_bytes);
                    out.blocks[component] = block;
                    out.memory.emplace_back(block, [](std::byte* b) { ::operator delete[](b, std::align_val_t{64}); });
                }
                std::byte* block = out.blocks[component];
                header(block).present |= bit(lane_number);
                for (u32 plane = 0; plane < 2; ++plane)
                    header(block).counter[plane] |= u64(v.counter[component] >> plane & 1) << lane_number;
                u32 i = info.first_column;
                for (i64 element : elements) {
                    const Column& column = layout.columns[i++];
                    if (column.element_bytes == 2)
                        column_data<i16>(block, column)[lane_number] = static_cast<i16>(element);
                    else if (column.element_bytes == 4)
                        column_data<i32>(block, column)[lane_number] = static_cast<i32>(element);
                    else
                        column_data<i64>(block, column)[lane_number] = element;
                }
            };
            if (value.place)
                put(place_index, {(*value.place)[0], (*value.place)[1]});
            if (value.hp)
                put(life_index, {*value.hp});
            if (value.link)
                put(link_index, {static_cast<i64>(value.link->value)});
            if (value.lasting)
                put(lasting_index, {});
            if (value.note) {
                put(note_index, {});
                out.opaque.data[lane] = reinterpret_cast<const std::byte*>(value.note->data());
                out.opaque.bytes[lane] = static_cast<u32>(value.note->size());
                out.opaque.changed[lane] = value.note_changed;
            }
        }
        return out;
    }

    const Protocol& protocol;
    const Layout& layout;
    i32 origin[2] = {20000, -10000};
    u16 next_id = 65000; // soon wraps
    Compression compression = Compression::automatic;

private:
    std::vector<std::byte> encode(const Part& part, Tick tick) {
        const Image now = image(part.chunk, tick);
        std::optional<Image> base;
        BlockInput input;
        const OpaqueLanes* opaque[component_count] = {};
        opaque[note_index] = now.blocks[note_index] ? &now.opaque : nullptr;
        input.layout = &layout;
        input.current = now.state();
        input.opaque = opaque;
        input.lanes = part.lanes;
        input.tick = tick;
        input.spatial = true;
        input.origin[0] = origin[0];
        input.origin[1] = origin[1];
        input.cell_steps = cell_steps;
        if (part.baseline) {
            base.emplace(image(part.chunk, *part.baseline));
            input.baseline = base->state();
            input.baseline_tick = *part.baseline;
        }
        std::vector<std::byte> out(8192);
        const EncodeResult result = encode_blocks(input, compression, scratch_, out);
        out.resize(result.bytes);
        return out;
    }

    std::map<Tick, std::map<u32, Chunk>> history_;
    SectionScratch scratch_;
};

class FakeBackend : public ClientBackend {
public:
    void poll(TimeUs, ClientBackendSink& sink) override {
        if (connect)
            sink.on_connect();
        connect = false;
        for (std::size_t i = 0; i < inbox_count; ++i)
            sink.on_message(Channel::unreliable, inbox[i]);
        inbox_count = 0;
        if (disconnect)
            sink.on_disconnect();
        disconnect = false;
    }
    SendResult send(Channel, Bytes message) override {
        if (refuse || sent_count == sent.size())
            return SendResult::refused;
        sent[sent_count++].assign(message.begin(), message.end());
        return SendResult::accepted;
    }
    void flush(TimeUs) override { ++flushes; }
    u32 message_bytes_max(Channel) const override { return 1200; }

    void deliver(Bytes message) {
        if (inbox.size() == inbox_count)
            inbox.emplace_back();
        inbox[inbox_count++].assign(message.begin(), message.end());
    }

    bool connect = true, disconnect = false, refuse = false;
    u32 flushes = 0;
    std::vector<std::vector<std::byte>> inbox;
    std::size_t inbox_count = 0;
    std::vector<std::vector<std::byte>> sent = std::vector<std::vector<std::byte>>(64);
    std::size_t sent_count = 0;
};

/// What the acks of one send said.
struct Acks {
    std::map<u16, std::vector<u16>> judged; // id -> unapplied sections
    std::optional<std::pair<Tick, u64>> hash;
    bool valid = true;
};

struct Setup {
    std::unique_ptr<Protocol> protocol;
    FakeServer server{*protocol};
    FakeBackend backend;
    World world{WorldOptions{.block_rows = 64}};
    std::unique_ptr<Client> client;
    TimeUs now = 0;

    explicit Setup(ClientConfig config = {}, bool join = true, Tick tick = 100, std::unique_ptr<Protocol> chosen = make_protocol())
        : protocol(std::move(chosen)) {
        client = std::make_unique<Client>(world, *protocol, backend, config);
        if (!join)
            return;
        (void)client->receive(now);
        (void)client->send(now);
        backend.sent_count = 0;
        (void)receive(server.welcome(tick));
    }
    Error receive(const std::vector<std::byte>& message) {
        backend.deliver(message);
        return client->receive(++now);
    }
    /// Snapshot, message and delivery in one.
    Error tick(Tick tick, std::vector<Part> parts) {
        server.snapshot(tick);
        return receive(server.message(tick, std::move(parts)));
    }
    Acks acks() {
        backend.sent_count = 0;
        Acks out;
        (void)client->send(++now);
        for (std::size_t i = 0; i < backend.sent_count; ++i) {
            const AckSink sink{&out,
                               [](void* context, u16 newest, u64 mask) {
                                   for (u32 back = 0; back < 64; ++back)
                                       if (mask >> back & 1)
                                           static_cast<Acks*>(context)->judged[static_cast<u16>(newest - back)];
                               },
                               [](void* context, u16 message, u16 section) {
                                   static_cast<Acks*>(context)->judged[message].push_back(section);
                               },
                               [](void* context, Tick settled, u64 hash) {
                                   static_cast<Acks*>(context)->hash = std::pair{settled, hash};
                               }};
            out.valid &= read_acks(backend.sent[i], sink) == Error::none;
        }
        return out;
    }
    /// Unapplied sections of the message sent last.
    std::vector<u16> unapplied() {
        Acks all = acks();
        const u16 id = static_cast<u16>(server.next_id - 1);
        return all.judged.count(id) ? all.judged[id] : std::vector<u16>{999};
    }
    bool acked(u16 id) { return acks().judged.count(id) != 0; }

    Entity entity(NetId id) const { return client->entity(id); }
    template <class T>
    const T* get(NetId id) const {
        return world.get<T>(entity(id));
    }
    i32 hp(NetId id) const { return get<Life>(id) ? get<Life>(id)->hp : -1; }
};

/// An entity with a place and hp.
inline LaneValue unit(NetId id, i32 hp, i16 x = 0, i16 z = 0) {
    LaneValue value;
    value.id = id;
    value.place = {x, z};
    value.hp = hp;
    return value;
}

} // namespace client_test
