// Writes the fuzz corpora anew: usage: record_corpus FOLDER (tests/fuzz/corpus; or `ninja -C build record_corpus`). Inputs are small, and
// seeded: the same program writes the same bytes, as far as zstd does.
#include "bench/traces/trace.hpp"
#include "src/events/typed_codec.hpp"
#include "src/registry/message.hpp"
#include "src/wire/masks.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include "tests/fuzz/section_baseline.hpp"
#include "tests/sim/random.hpp"
#include "tests/support/encode_blocks.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/scene.hpp"
#include "throng/server.hpp"
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <zstd.h>

using namespace throng;

namespace {

std::string root;
u32 files = 0;

void save(const std::string& target, const std::string& name, Bytes bytes) {
    std::filesystem::create_directories(root + "/" + target);
    std::FILE* file = std::fopen((root + "/" + target + "/" + name).c_str(), "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0) {
        std::fprintf(stderr, "record_corpus: cannot write %s/%s\n", target.c_str(), name.c_str());
        std::exit(2);
    }
    ++files;
}
void save(const std::string& target, const std::string& name, const std::string& text) {
    save(target, name, std::as_bytes(std::span(text)));
}

struct Buffer {
    std::vector<std::byte> bytes;
    void integer(u64 value, u32 count) {
        for (u32 i = 0; i < count; ++i)
            bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    void varint(u32 value) {
        std::byte out[varint_bytes_max];
        add({out, write_varint(out, value)});
    }
    void add(Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); }
};

// ---- section
void sections() {
    using namespace section_test;
    const TestLayout test = rich_layout();
    const State baseline = section_baseline(test.layout);
    SectionScratch scratch(text_bytes(rich_dictionary), default_allocator());
    std::vector<std::byte> out(section_bytes_max);
    Random random{99};
    for (const bool full : {true, false})
        for (const bool zstd : {false, true})
            for (const u32 lanes : {1u, 3u, 12u, 55u}) {
                State current = baseline;
                mutate(random, current, 55);
                State base = baseline;
                u64 mask = 0;
                while (static_cast<u32>(std::popcount(mask)) < lanes)
                    mask |= (u64{1} << random.below(64)) & baseline.occupants.alive;
                BlockInput input;
                input.layout = &test.layout;
                input.current = current.view();
                input.opaque = current.opaque_pointers.data();
                input.lanes = mask;
                input.tick = 55;
                input.baseline_tick = 50;
                input.spatial = lanes != 3;
                input.cell_steps = section_cell_steps;
                input.origin[0] = static_cast<i32>(3 * section_cell_steps);
                input.origin[1] = -static_cast<i32>(section_cell_steps);
                if (!full)
                    input.baseline = base.view();
                const EncodeResult result = encode_blocks(input, zstd ? Compression::always : Compression::never, scratch, out);
                save("section", std::string(full ? "full_" : "delta_") + (zstd ? "zstd_" : "packed_") + std::to_string(lanes),
                     Bytes(out).first(result.bytes));
            }
}

// ---- client: what a server says to a client that sees some of a small world
struct Heard {
    Buffer list;
    u32 messages = 0;
    static void record(void* context, const TraceRecord& record) {
        Heard& heard = *static_cast<Heard*>(context);
        const auto kind = static_cast<MessageKind>(record.message[0]);
        if (record.direction == Direction::up || record.fate != Fate::delivered || kind == MessageKind::welcome ||
            kind == MessageKind::table)
            return;
        heard.list.integer(record.message.size(), 2);
        heard.list.add(record.message);
        ++heard.messages;
    }
};

void client(const char* target, const char* name, u64 seed, Compression compression, const LinkConfig& down, u32 ticks, u32 entities) {
    const bool newer = std::strcmp(target, "newer") == 0;
    fuzz::FuzzProtocol fixture(newer), client_fixture;
    throng_sim::Random random(seed), signs(seed + 100);
    Heard heard;
    World world, client_world;
    LoopbackNetwork network({.seed = seed, .client_max = 1, .trace = {&Heard::record, &heard}});
    Server server(world, fixture.protocol, network.server(),
                  {.cell_size = fuzz::cell_size,
                   .radius_min = 60,
                   .message_bytes_max = 400,
                   .heartbeat_ticks = 3,
                   .hash_ticks = 4,
                   .first_tick = fuzz::welcome_tick + 1,
                   .compression = compression});
    std::vector<Entity> all;
    const auto spawn = [&] {
        const Entity entity =
            world.spawn(fuzz::Place{static_cast<float>(random.range(-120, 120)), static_cast<float>(random.range(-60, 60))}, Replicated{});
        if (random.chance(0.5))
            world.add<fuzz::Speed>(entity, fuzz::Speed{static_cast<float>(random.range(-9, 9)), 1});
        if (random.chance(0.7))
            world.add<fuzz::Life>(entity,
                                  fuzz::Life{random.range(0, 1000), random.chance(0.5), 1, all.empty() ? Entity{} : all[all.size() / 2]});
        if (random.chance(0.3)) {
            fuzz::Note note;
            note.size_bytes = static_cast<u8>(random.below(30));
            std::memset(note.bytes, 'a' + static_cast<int>(random.below(3)), note.size_bytes);
            world.add<fuzz::Note>(entity, note);
            if (newer)
                world.add<fuzz::Smell>(entity, fuzz::Smell{note});
        }
        if (signs.chance(0.4))
            world.add<SpawnSignature>(entity, SpawnSignature{1 + signs.below(fuzz::signatures)});
        if (newer && random.chance(0.5))
            world.add<fuzz::Glow>(entity, fuzz::Glow{random.below(1000), all.empty() ? Entity{} : all[0]});
        all.push_back(entity);
    };
    for (u32 i = 0; i < entities; ++i)
        spawn();
    const ClientId id = network.connect(down, {});
    Client real(client_world, client_fixture.protocol, network.client(id));
    fuzz::Listener listener{client_world};
    if (real.set_handlers(handlers<fuzz::Hit, fuzz::Say, fuzz::Bell>(listener)) != Error::none)
        std::exit(1);
    for (u32 tick = 0; tick < ticks; ++tick) {
        const TimeUs now = TimeUs(tick + 1) * 50'000;
        if (tick < ticks - 6) {
            for (u32 i = 0; i < entities; i += 4) {
                world.mut<fuzz::Place>(all[i])->x += 4;
                if (fuzz::Life* life = world.mut<fuzz::Life>(all[i]))
                    life->hp -= 3, life->yaw += 0.1f, life->target = all[random.below(entities)], ++life->mana;
                if (SpawnSignature* signature = signs.chance(0.3) ? world.mut<SpawnSignature>(all[i]) : nullptr)
                    signature->hash = signs.below(2) ? signature->hash + 1 : 0;
                if (fuzz::Glow* glow = newer ? world.mut<fuzz::Glow>(all[i]) : nullptr)
                    ++glow->hue;
            }
            for (u32 i = 0; i < entities; i += 2)
                if (world.has<fuzz::Note>(all[i])) // refused at its end
                    (void)server.apply_diff<fuzz::Note>(all[i], fuzz::Letter{static_cast<u8>('A' + tick)});
            if (tick % 4 == 3) {
                world.destroy(all[tick % entities]);
                all[tick % entities] = all.back();
                all.pop_back();
                spawn();
            }
        }
        server.receive(now);
        if (server.joined(id) && tick % 5 == 1)
            server.view(id).look_at(tick % 2 ? 60 : -60, 0, {.radius = 80});
        const Entity a = all[tick % all.size()], b = all[0];
        if (server.send_message(To::all(), fuzz::some_hit(tick, a, tick % 2 ? b : Entity{})) != Error::none ||
            server.send_message(To::observers(b), fuzz::some_say(tick, b)) != Error::none ||
            server.send_message(To::all(), fuzz::Bell{tick, a}) != Error::none ||
            (newer && server.send_message(To::all(), fuzz::Whisper{tick}) != Error::none))
            std::exit(1);
        server.tick(now);
        if (real.receive(now) != Error::none || real.send(now) != Error::none)
            std::exit(1);
    }
    save(target, name, heard.list.bytes);
}

void clients() {
    client("client", "perfect", 1, Compression::never, {}, 12, 8);
    client("client", "late", 2, Compression::never, {.delay_us = 40'000, .jitter_us = 150'000, .duplicate_percent = 20}, 16, 6);
    client("client", "lossy", 3, Compression::never, {.loss_percent = 30, .delay_us = 100'000}, 16, 6);
    client("client", "zstd", 4, Compression::always, {.loss_percent = 10}, 8, 10);
    client("client", "signed", 8, Compression::never, {.loss_percent = 10, .delay_us = 50'000, .jitter_us = 100'000}, 20, 12);
    client("newer", "signed", 9, Compression::never, {.loss_percent = 10, .delay_us = 50'000, .jitter_us = 100'000}, 20, 12);
    client("newer", "perfect", 5, Compression::never, {}, 12, 8);
    client("newer", "lossy", 6, Compression::never, {.loss_percent = 30, .delay_us = 100'000, .jitter_us = 100'000}, 16, 6);
    client("newer", "zstd", 7, Compression::always, {.loss_percent = 10}, 8, 10);
    Buffer list; // the handshake: a second welcome, then a reject, then state for nobody
    std::byte welcome[welcome_bytes], reject[2 + reject_text_max], head[state_header_bytes];
    write_welcome(welcome, {{1, 2}, 2, 20, 10000});
    const u32 reject_bytes = write_reject(reject, {RejectReason::full, "full"});
    write_state_header(head, {7, fuzz::welcome_tick + 1, 3, true});
    for (const Bytes message : {Bytes(head), Bytes(welcome), Bytes(reject).first(reject_bytes), Bytes(head)}) {
        list.integer(message.size(), 2);
        list.add(message);
    }
    save("client", "handshake", list.bytes);
}

// ---- server: acks, hellos, noise
Buffer ack(std::initializer_list<std::pair<u16, u64>> blocks, std::initializer_list<std::pair<u16, u32>> unapplied, bool hash) {
    Buffer out;
    out.integer(5, 1);
    out.integer(blocks.size(), 1);
    for (const auto& [newest, mask] : blocks)
        out.integer(newest, 2), out.integer(mask, 8);
    out.varint(static_cast<u32>(unapplied.size()));
    for (const auto& [message, section] : unapplied)
        out.integer(message, 2), out.varint(section);
    out.integer(hash, 1);
    if (hash)
        out.integer(fuzz::welcome_tick + 3, 4), out.integer(0x1234567890abcdef, 8);
    return out;
}

void servers() {
    fuzz::FuzzProtocol fixture;
    struct Script {
        Buffer list;
        void message(u32 channel, Bytes bytes) {
            list.integer(channel, 1);
            list.integer(bytes.size(), 2);
            list.add(bytes);
        }
        void ticks(u32 count) {
            for (u32 i = 0; i < count; ++i)
                message(4, {});
        }
    } acks, late, anew;
    for (u16 i = 0; i < 8; ++i) {
        acks.message(0, ack({{static_cast<u16>(i + 3), ~u64{0}}}, {}, i == 5).bytes);
        acks.ticks(2);
    }
    late.ticks(20); // more in flight than records_max
    late.message(0, ack({{9, 0x55}, {20, 0xffff}}, {{18, 0}, {19, 1}}, false).bytes);
    late.ticks(2);
    late.message(0, ack({{0xfff0, ~u64{0}}, {22, 7}}, {{22, 0}}, true).bytes);
    late.ticks(3);
    std::byte hello[hello_bytes], wrong[hello_bytes];
    write_hello(hello, {wire_format_version, fixture.protocol.hash()});
    write_hello(wrong, {wire_format_version, {1, 2}});
    anew.ticks(2);
    anew.message(2, hello); // a second one
    anew.message(3, {});
    anew.message(0, ack({{3, 15}}, {}, false).bytes); // before the hello
    anew.message(2, wrong); // asks for the table
    anew.ticks(1);
    anew.message(2, wrong); // and gives up
    anew.ticks(1);
    anew.message(3, {});
    anew.message(2, wrong);
    anew.message(2, hello); // agrees
    anew.ticks(1);
    anew.message(3, {});
    anew.message(2, hello);
    anew.ticks(4);
    anew.message(0, ack({{5, ~u64{0}}}, {}, false).bytes);
    anew.ticks(2);
    // Bundles: of entities that are seen, of one that is not there, of the wrong way, and cut short.
    Script typed;
    const auto bundle = [&](auto message, std::initializer_list<NetId> references) {
        const MessageLayout& layout = *fixture.protocol.messages().find(message_type_id<decltype(message)>());
        Array<std::byte> body, out;
        out.push_back(bundle_kind);
        if (append_body(layout, &message, body) != Error::none)
            std::exit(1);
        append_item(layout, fixture.protocol.messages().number(layout), 5, references.begin(), {body.data(), body.size()}, out);
        return Buffer{{out.begin(), out.end()}};
    };
    const NetId seen = NetId::make(3, 1), absent = NetId::make(77, 1), other = NetId::make(3, 2);
    for (const Buffer& b :
         {bundle(fuzz::some_hit(1, {}, {}), {seen, NetId{}}), bundle(fuzz::some_hit(2, {}, {}), {seen, absent}),
          bundle(fuzz::some_say(3, {}), {other}), bundle(fuzz::some_say(17, {}), {seen}), bundle(fuzz::Bell{4, {}}, {seen})}) {
        typed.message(0, b.bytes);
        typed.message(2, b.bytes); // another channel than theirs
        typed.ticks(1);
        typed.message(0, Bytes(b.bytes).first(b.bytes.size() - 1));
    }
    Script admitted; // yes, no, later
    for (u32 verdict = 0; verdict < 3; ++verdict) {
        std::byte with_data[hello_bytes + 2];
        const std::byte data[] = {static_cast<std::byte>(verdict), std::byte{9}};
        write_hello(with_data, {wire_format_version, fixture.protocol.hash(), data});
        admitted.message(3, {});
        admitted.message(2, with_data);
        admitted.message(2, with_data);
        admitted.ticks(9);
        admitted.message(0, ack({{3, ~u64{0}}}, {}, false).bytes);
    }
    save("server", "admitted", admitted.list.bytes);
    save("server", "typed", typed.list.bytes);
    save("server", "acks", acks.list.bytes);
    save("server", "late", late.list.bytes);
    save("server", "anew", anew.list.bytes);
}

// ---- multiplexer: streams that open, speak and close; the same twice; noise to the client
void multiplexers() {
    Buffer out;
    const auto say = [&](u32 how, std::initializer_list<u32> values) {
        out.integer(how, 1);
        out.integer(values.size(), 1);
        for (const u32 value : values)
            out.integer(value, 1);
    };
    constexpr u32 ordered = 2, renew = 3, to_server = 4, polled = 8, let_out = 16;
    for (const u32 world : {0u, 1u, 2u}) {
        say(ordered | to_server, {255, 1, world, world});
        say(to_server | polled, {world, 9, 9});
        say(ordered | to_server | polled | let_out, {world, 7});
        say(ordered | to_server, {255, 2, world});
        say(polled, {world, 5});
        say(ordered | polled, {255, 2, world});
    }
    say(ordered | to_server, {255, 1, 5, 1});
    say(renew | polled, {});
    say(ordered | to_server | polled, {255, 1, 5, 1});
    say(ordered | to_server | polled, {5, 1});
    save("multiplexer", "streams", out.bytes);
}

// ---- message: the readers, in the order of message_fuzz.cpp
void messages() {
    const auto keep = [](u32 reader, const char* name, Bytes bytes) {
        Buffer out;
        out.integer(reader, 1);
        out.add(bytes);
        save("message", name, out.bytes);
    };
    std::byte hello[hello_bytes], welcome[welcome_bytes], head[state_header_bytes], section[section_header_bytes_max];
    write_hello(hello, {wire_format_version, {0x0123456789abcdef, 0xfedcba9876543210}});
    write_welcome(welcome, {{0x0123456789abcdef, 0xfedcba9876543210}, 0xfffffff0u, 20, 6400});
    keep(0, "hello", hello);
    std::byte with_data[hello_bytes + 3];
    const std::byte data[] = {std::byte{1}, std::byte{0}, std::byte{255}};
    write_hello(with_data, {wire_format_version, {1, 2}, data});
    keep(0, "hello_data", with_data);
    keep(1, "welcome", welcome);
    Buffer state;
    state.add({head, write_state_header(head, {65535, 5, 254, true})});
    state.add({section, write_section_header(section, 300, 5, 0x8000'0000'00ff'0001u)});
    state.integer(0x1122334455, 5);
    state.add({section, write_section_header(section, 0, 0, 1)});
    state.add({section, write_section_header(section, 1, 3, 0)});
    state.integer(7, 3);
    keep(2, "state", state.bytes);
    Buffer with_userdata;
    const std::byte userdata[] = {std::byte{0}, std::byte{200}};
    std::byte long_head[header_bytes(2)];
    with_userdata.add({long_head, write_state_header(long_head, {1, 2, 255, false, false, userdata})});
    with_userdata.add({section, write_section_header(section, 1, 3, 0)});
    with_userdata.integer(7, 3);
    keep(2, "state_userdata", with_userdata.bytes);
    keep(3, "acks", ack({{1, 2}, {300, ~u64{0}}}, {{5, 0}, {6, 300}, {7, 65535}}, true).bytes);
    Buffer varints;
    for (const u32 value : {0u, 1u, 127u, 128u, 16'383u, 16'384u, 0x7fff'ffffu, 0xffff'ffffu})
        varints.varint(value);
    fuzz::FuzzProtocol fixture;
    const MessageTable& table = fixture.protocol.messages();
    Array<std::byte> bundle, body;
    bundle.push_back(bundle_kind);
    const auto item = [&](const auto& message, std::initializer_list<NetId> references) {
        const MessageLayout& layout = *table.find(message_type_id<std::remove_cvref_t<decltype(message)>>());
        body.clear();
        if (append_body(layout, &message, body) != Error::none)
            std::exit(1);
        append_item(layout, table.number(layout), 0xfffffff0u, references.begin(), {body.data(), body.size()}, bundle);
    };
    item(fuzz::some_hit(5, {}, {}), {NetId::make(300, 2, 7), NetId{}});
    item(fuzz::some_say(9, {}), {NetId::make(0, 1)});
    item(fuzz::Bell{~u64{0}, {}}, {NetId::make(70'000, 0xffffff, 255)});
    keep(8, "bundle", {bundle.data(), bundle.size()});
    Buffer hashed; // before the join
    hashed.integer(6 | 0x80, 1), hashed.integer(fixture.protocol.hash().low, 8), hashed.integer(fixture.protocol.hash().high, 8);
    hashed.add(Bytes(bundle.data(), bundle.size()).subspan(1));
    keep(8, "bundle_hashed", hashed.bytes);
    std::byte reject[2 + reject_text_max];
    keep(9, "reject", {reject, write_reject(reject, {RejectReason::protocol, "another protocol"})});
    fuzz::FuzzProtocol newer(true);
    Protocol empty;
    if (empty.finish() != Error::none)
        std::exit(1);
    keep(10, "table", fixture.protocol.table());
    keep(10, "table_newer", newer.protocol.table());
    keep(10, "table_empty", empty.table());
    keep(4, "varints", varints.bytes);
    std::byte mask[byte_mask_bytes_max];
    keep(5, "byte_mask", {mask, write_byte_mask(mask, 0x00ff'0000'1200'0080u)});
    for (const u64 lanes : {u64{1} << 63, u64{0x8000'0000'0001'0101}, ~u64{0}, u64{0x5f37'59df'1234'5678}}) {
        std::byte out[16];
        BitWriter writer(out);
        write_lane_mask(writer, lanes);
        keep(6, ("lane_mask_" + std::to_string(std::popcount(lanes))).c_str(), {out, writer.finish()});
    }
    Buffer bits;
    for (const u32 step : {1u, 7u, 0u, 3u, 5u, 0xffu, 8u, 9u, 2u, 4u})
        bits.integer(step, 1);
    bits.integer(0, 8);
    keep(7, "bits", bits.bytes);
}

// ---- link: see link_fuzz.cpp
void links() {
    for (const u32 kind : {0u, 1u, 2u}) {
        Buffer out;
        for (u32 half = 0; half < 2; ++half) {
            const double percents[8] = {10, kind ? 5.0 : 0, kind ? 30.0 : 100, 80, 20, 10, kind * 5.0, kind * 10.0};
            out.add(std::as_bytes(std::span(percents)));
            out.integer(kind == 2 ? 20'000 : 0, 8); // rate
            for (const u32 value : {30'000u, 20'000u, 50'000u, 4096u, 36u, kind * 600, half + 3, 20'000u, kind + half, 300u, 350u, 0u})
                out.integer(value, 4);
        }
        for (u32 i = 0; i < 41 + kind; ++i)
            out.integer((i * 37) & 0xff, 1);
        save("link", "kind_" + std::to_string(kind), out.bytes);
    }
}

// ---- scene: both forms of a small world, and JSON as a person writes it
void scenes() {
    fuzz::SceneFuzzProtocol fixture;
    World world;
    const Entity first = world.spawn(fuzz::Place{1.5f, -20}, fuzz::Speed{0.1f, 3e-9f}, Replicated{});
    fuzz::Note note;
    note.size_bytes = 5;
    std::memcpy(note.bytes, "hello", 5);
    const Entity second = world.spawn(fuzz::Life{-7, true, 3, first}, fuzz::Note{note}, Replicated{});
    world.spawn(fuzz::Place{0, std::numeric_limits<float>::infinity()}, fuzz::Life{1 << 30, false, -0.0f, second}, Replicated{});
    for (u32 i = 0; i < 60; ++i)
        world.spawn(Replicated{});
    world.spawn(fuzz::Life{}, SpawnSignature{0x1234567890abcdef}, Replicated{});
    world.resources().emplace<fuzz::Season>(fuzz::Season{-300, second});
    static_cast<fuzz::Note&>(world.resources().emplace<fuzz::Motto>()) = note;
    for (const bool resources : {false, true})
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Array<std::byte> file;
            SceneReport report;
            if (save_scene(world, fixture.protocol, file, report, {.form = form, .resources = resources}) != Error::none)
                std::exit(1);
            save("scene", std::string(form == SceneForm::json ? "json" : "binary") + (resources ? "_resources" : ""),
                 {file.data(), file.size()});
        }
    save("scene", "by_hand",
         std::string("{ \"throng_scene\": 1,\r\n  \"entities\": [ {\"li\\u0066e\": {\"3\": 1, \"hp\": 5}},\n\t{\"place\": "
                     "{\"1\": -2.5E+1}}, {\"note\": \"00ff7f\", \"life\": {\"yaw\": \"0x7fc00001\", \"3\": null}} ]\n}\n"));
    save("scene", "resources_by_hand",
         std::string("{\"throng_scene\":2 , \"resources\": {\"season\": {\"ruler\": 1},\n \"motto\": \"6869\"},\"entities\":[{},{}]}"));
}

// ---- trace: the formats
void traces() {
    const std::string fcd = "<?xml version=\"1.0\"?>\n<!-- note -->\n<fcd-export>\n  <timestep time=\"1.00\">\n"
                            "    <vehicle id=\"a\" x=\"10\" y=\"20\" angle=\"90\" speed=\"5\"/>\n    <person id='b' x=\"1.5\" y=\"2\"/>\n"
                            "  </timestep>\n  <timestep time=\"1.05\"/>\n  <timestep time=\"1.10\">\n"
                            "    <vehicle id=\"a\" x=\"10.5\" y=\"20\" z=\"3\" angle=\"270\" speed=\"5\"/>\n  </timestep>\n</fcd-export>\n";
    const std::string csv = "# note\nSpeed, y, x, time, \"id\", Z\n3,2,1,0,v,9\n3,2,2,0.5,v,9\n1,1,1,0.5,w,0\n3,2,3,1,v,9\n";
    save("trace", "fcd", fcd);
    save("trace", "csv", csv);
    save("trace", "city",
         std::string("T 420.00\n1001 400.95 241.60 270.00 13.05\n\nT 420.05\n1001 400.30 241.60 270.00 13.05\n1002 1 2 0 0\n"));
    save("trace", "pedestrian", std::string("1 16 100 200 170\n1 17 110 200 170\n2 16 0 0 160\n"));
    std::vector<std::byte> packed(ZSTD_compressBound(csv.size()));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), csv.data(), csv.size(), 3));
    save("trace", "csv_zstd", packed);
    std::vector<i32> frames(2 * 901 * 8, 0);
    for (std::size_t cube = 0; cube < 2 * 901; ++cube)
        frames[cube * 8 + 4] = static_cast<i32>(cube % 7) * 100, frames[cube * 8 + 1] = frames[cube * 8 + 2] = frames[cube * 8 + 3] = 256;
    packed.resize(ZSTD_compressBound(frames.size() * 4));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), frames.data(), frames.size() * 4, 9));
    save("trace", "cubes_zstd", packed);
    scenarios::Trace trace;
    std::vector<std::byte> recording;
    if (!scenarios::parse_trace(std::as_bytes(std::span(csv)), "csv", trace).empty() ||
        !scenarios::write_recording(trace, recording).empty())
        std::exit(1);
    save("trace", "throngtrace", recording);
}

} // namespace

int main(int count, char** values) {
    if (count != 2) {
        std::fputs("usage: record_corpus FOLDER\n", stderr);
        return 2;
    }
    root = values[1];
    sections();
    clients();
    servers();
    messages();
    multiplexers();
    links();
    scenes();
    traces();
    std::printf("%u files\n", files);
    return 0;
}
