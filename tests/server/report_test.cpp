// Reports of clients and components: every number against what a reader of the messages counts, or by hand.
#include "src/events/typed_codec.hpp"
#include "src/registry/message.hpp"
#include "src/registry/section.hpp"
#include "src/server/state.hpp"
#include "src/wire/masks.hpp"
#include "tests/support/message_world.hpp"
#include "tests/support/replication_world.hpp"
#include <bit>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

/// Reads the messages that depart for each client. Payloads are packed ones (Compression::never).
struct Reader {
    ClientTraffic traffic[8]; // by client, of state, heartbeats and bundles

    TraceHook hook() { return {&Reader::look, this}; }
    ClientTraffic take(ClientId client) { return std::exchange(traffic[client], ClientTraffic{}); }

    static void look(void* context, const TraceRecord& record) {
        if (record.direction == Direction::down && record.fate == Fate::sent && !record.message.empty())
            static_cast<Reader*>(context)->read(static_cast<Reader*>(context)->traffic[record.client], record.message);
    }
    void read(ClientTraffic& out, Bytes message) {
        if (message[0] == bundle_kind) {
            ++out.typed_bundles;
            out.typed_bytes += message.size();
            return;
        }
        StateHeader header;
        if (read_state_header(message, header) != Error::none)
            return; // a welcome
        u32 offset = header_bytes(static_cast<u32>(header.userdata.size()));
        if (offset == message.size()) {
            ++out.heartbeats;
            out.heartbeat_bytes += message.size();
            return;
        }
        ++out.messages;
        out.bytes += message.size();
        if (header.ends) {
            out.ends += (message.size() - offset) / sizeof(NetId);
            return;
        }
        while (offset < message.size()) {
            SectionHeader section;
            REQUIRE(read_section_header(message, offset, section) == Error::none);
            read_section(out, section);
        }
    }
    void read_section(ClientTraffic& out, const SectionHeader& section) {
        ++out.sections;
        out.gone_lanes += static_cast<u64>(std::popcount(section.gone));
        out.payload_bytes += section.payload.size();
        if (section.payload.empty())
            return;
        SectionHead head;
        REQUIRE(read_section_head(section.payload, head) == Error::none);
        REQUIRE(head.baseline_age < 128);
        BitReader bits(section.payload.subspan(head.full ? 1 : 2));
        const auto lanes = static_cast<u64>(std::popcount(read_lane_mask(bits)));
        out.lanes += lanes;
        out.full_lanes += head.full ? lanes : 0;
        out.delta_sections += !head.full;
        out.baseline_age_sum += head.baseline_age;
    }
};

/// Everything that a reader of the messages can count.
void check_sent(const ClientTraffic& counted, const ClientTraffic& read) {
    CHECK(counted.messages == read.messages);
    CHECK(counted.bytes == read.bytes);
    CHECK(counted.sections == read.sections);
    CHECK(counted.payload_bytes == read.payload_bytes);
    CHECK(counted.delta_sections == read.delta_sections);
    CHECK(counted.baseline_age_sum == read.baseline_age_sum);
    CHECK(counted.lanes == read.lanes);
    CHECK(counted.full_lanes == read.full_lanes);
    CHECK(counted.gone_lanes == read.gone_lanes);
    CHECK(counted.ends == read.ends);
    CHECK(counted.heartbeats == read.heartbeats);
    CHECK(counted.heartbeat_bytes == read.heartbeat_bytes);
    CHECK(counted.typed_bundles == read.typed_bundles);
    CHECK(counted.typed_bytes == read.typed_bytes);
}

/// The sums over clients are the server's own report.
void check_sum(const ClientTraffic& sum, const TickReport& report) {
    CHECK(sum.messages == report.messages);
    CHECK(sum.bytes == report.bytes);
    CHECK(sum.payload_bytes == report.payload_bytes);
    CHECK(sum.delta_sections == report.delta_sections);
    CHECK(sum.baseline_age_sum == report.baseline_age_sum);
    CHECK(sum.lanes == report.pairs);
    CHECK(sum.lanes + sum.gone_lanes == report.sent_lanes);
    CHECK(sum.full_lanes == report.sent_full_lanes);
    CHECK(sum.gone_lanes == report.gone_lanes);
    CHECK(sum.repeated_lanes == report.repeated_lanes);
    CHECK(sum.heartbeats == report.heartbeats);
    CHECK(sum.heartbeat_bytes == report.heartbeat_bytes);
    CHECK(sum.acked_messages == report.acked_messages);
    CHECK(sum.lost_messages == report.lost_messages);
    CHECK(sum.unapplied_sections == report.unapplied_sections);
}

struct Net : ReplicationWorld {
    explicit Net(ServerConfig config = {.heartbeat_ticks = 0, .compression = Compression::never}, TraceHook hook = {})
        : ReplicationWorld(config, {.trace = hook}, make_protocol(2000, true)), peer(connect()) {
        while (!server.joined(peer.id))
            step();
    }
    void settle() {
        for (int i = 0; i < 200 && (i < 3 || !server.settled(peer.id)); ++i)
            step();
        REQUIRE(server.settled(peer.id));
    }
    void lose_all(bool lost) { network.set_link(peer.id, Direction::down, {.loss_percent = lost ? 100.0 : 0.0}); }
    ClientReport report() const { return server.client_report(peer.id); }
    Peer& peer;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("report: what went to each client is what a reader of its messages counts, tick by tick and in all") {
        Reader reader;
        ReplicationWorld net({.heartbeat_ticks = 4, .compression = Compression::never}, {.seed = 3, .trace = reader.hook()},
                             make_protocol(2000, true));
        const LinkConfig link{.loss_percent = 20, .delay_us = 60'000, .jitter_us = 60'000};
        std::vector<Entity> all;
        for (int i = 0; i < 300; ++i) {
            const float x = float(i % 20) * 10 - 100, z = float(i / 20) * 10 - 75;
            all.push_back(i % 10 ? net.world.spawn(Place{x, z}, Speed{float(i % 7) - 3, 1}, Replicated{})
                                 : net.world.spawn(Place{x, z}, Name{"a name"}, Lasting{}, Replicated{}));
        }
        for (int i = 0; i < 3; ++i)
            net.connect(link, link);
        ClientTraffic totals[3];
        const auto check_tick = [&](const TickReport& report) {
            ClientTraffic sum;
            for (ClientId id = 0; id < 3; ++id) {
                const ClientReport of_client = net.server.client_report(id);
                CHECK(of_client.tick == report.tick);
                check_sent(of_client.last, reader.take(id));
                sum += of_client.last;
                totals[id] += of_client.last;
                check_sent(of_client.total, totals[id]);
                CHECK(of_client.total.acked_messages == totals[id].acked_messages);
                CHECK(of_client.total.lost_messages == totals[id].lost_messages);
                CHECK(of_client.total.repeated_lanes == totals[id].repeated_lanes);
            }
            check_sum(sum, report);
        };
        for (int tick = 0; tick < 120; ++tick) {
            for (auto& peer : net.peers)
                if (net.server.joined(peer->id) && tick % 20 == 10) {
                    View view = net.server.view(peer->id);
                    view.look_at(tick % 40 == 10 ? 0.0 : 90.0, 0, {.radius = 60});
                    tick % 40 == 10 ? view.hide(all[155]) : view.show(all[155]);
                }
            if (tick % 10 == 5 && tick > 30)
                net.world.destroy(all[std::size_t(tick) / 10 * 10]);
            if (tick % 40 > 10)
                net.world.each_mut<Place, Speed>([&](Place& p, Speed& s) { p.x += s.x * 0.05f; });
            check_tick(net.step());
        }
        for (int tick = 0; tick < 40; ++tick)
            check_tick(net.step());
        CHECK(totals[0].gone_lanes > 0);
        CHECK(totals[0].ends > 0);
        CHECK(totals[0].heartbeats > 0);
        CHECK(totals[0].lost_messages > 0);
        CHECK(totals[0].repeated_lanes > 0);
        CHECK(totals[0].delta_sections > 0);
        CHECK(totals[0].full_lanes < totals[0].lanes);
    }

    TEST_CASE("report: a lane larger than a packet counts like any other") {
        Reader reader;
        Net net({.heartbeat_ticks = 0, .compression = Compression::never}, reader.hook());
        reader.take(net.peer.id);
        net.world.spawn(Name{std::string(1800, 'x')}, Replicated{});
        const TickReport& report = net.step();
        const ClientReport of_client = net.report();
        CHECK(of_client.last.full_lanes == 1);
        CHECK(of_client.last.sections == 1);
        CHECK(of_client.last.bytes > 1800);
        check_sent(of_client.last, reader.take(net.peer.id));
        check_sum(of_client.last, report);
    }

    TEST_CASE("report: how much a client is meant to see, may have, has acknowledged, waits for and is to forget") {
        Net net;
        std::vector<Entity> all;
        for (int i = 0; i < 5; ++i)
            all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
        net.step();
        ClientReport report = net.report();
        CHECK(report.connected);
        CHECK(report.joined);
        CHECK_FALSE(report.settled);
        CHECK(report.chunks == 1);
        CHECK(report.visible == 5);
        CHECK(report.held == 5); // sent
        CHECK(report.limbo == 5); // without an acknowledgement
        CHECK(report.current == 0);
        CHECK(report.unsent == 0);
        CHECK(report.messages_in_flight == 1);
        CHECK(report.chunks_behind == 1);
        CHECK(report.round_trip_ticks == 4);
        net.settle();
        report = net.report();
        CHECK(report.settled);
        CHECK(report.current == 5);
        CHECK(report.limbo == 0);
        CHECK(report.messages_in_flight == 0);
        CHECK(report.chunks_behind == 0);
        CHECK(report.baseline_age_max == 0);
        CHECK(report.round_trip_ticks == 3.625); // 4, and one sample of 1: an eighth of the way
        CHECK(report.total.acked_messages == 1);
        CHECK(report.last.acked_messages == 0);

        net.network.set_link(net.peer.id, Direction::up, {.loss_percent = 100}); // nothing is acknowledged
        net.world.mut<Health>(all[0])->hp = 70;
        net.world.mut<Health>(all[1])->hp = 71;
        net.server.view(net.peer.id).hide(all[2]);
        net.world.destroy(all[3]);
        net.steps(3);
        report = net.report();
        CHECK(report.visible == 3);
        CHECK(report.held == 3);
        CHECK(report.current == 1);
        CHECK(report.limbo == 0);
        CHECK(report.leaving == 2);
        CHECK(report.chunks_behind == 1);
        CHECK(report.messages_in_flight == 1);
        CHECK(report.baseline_age_max == 3); // from the tick before the change
        net.network.set_link(net.peer.id, Direction::up, {});
        net.settle();
        report = net.report();
        CHECK(report.visible == 3);
        CHECK(report.current == 3);
        CHECK(report.leaving == 0);
    }

    TEST_CASE("report: what waits for a budget is unsent, and what a client is never sent is not held") {
        Net net({.budget_bytes = 40, .heartbeat_ticks = 0, .compression = Compression::never});
        for (int i = 0; i < 640; ++i)
            net.world.spawn(Health{i * 7919, false}, Replicated{});
        net.step();
        const ClientReport report = net.report();
        CHECK(report.visible == 640);
        CHECK(report.held == 64); // a chunk
        CHECK(report.unsent == 576);
        CHECK(report.last.full_lanes == 64);
        CHECK(report.chunks == 10);
    }

    TEST_CASE("report: what a lost message carried is counted as repeated, once") {
        Net net;
        std::vector<Entity> all;
        for (int i = 0; i < 5; ++i)
            all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
        net.settle();
        const ClientTraffic before = net.report().total;
        CHECK(before.repeated_lanes == 0);
        net.lose_all(true);
        for (std::size_t i = 0; i < 3; ++i)
            net.world.mut<Health>(all[i])->hp += 100;
        net.step();
        net.lose_all(false);
        net.settle();
        const ClientTraffic after = net.report().total;
        CHECK(after.lost_messages - before.lost_messages == 1);
        CHECK(after.repeated_lanes - before.repeated_lanes == 3);
        CHECK(after.messages - before.messages == 2);
        CHECK(after.lanes - before.lanes == 6);
        CHECK(after.acked_messages - before.acked_messages == 1);
    }

    TEST_CASE("report: Lasting entities, and their ends until they are acknowledged") {
        Net net;
        const Entity first = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        net.world.spawn(Health{2, false}, Lasting{}, Replicated{});
        net.settle();
        net.server.view(net.peer.id).hide_all();
        net.settle();
        CHECK(net.report().lasting == 2);
        CHECK(net.report().visible == 0);
        CHECK(net.report().held == 0);
        net.lose_all(true);
        net.world.destroy(first);
        net.step();
        CHECK(net.report().last.ends == 1);
        CHECK(net.report().open_ends == 1);
        net.lose_all(false);
        net.settle();
        CHECK(net.report().open_ends == 0);
        CHECK(net.report().lasting == 1);
        CHECK(net.report().total.ends == 2); // the first was lost
    }

    TEST_CASE("report: one that is not connected has nothing, and a new connection begins at nothing") {
        Net net;
        net.world.spawn(Health{1, false}, Replicated{});
        net.settle();
        CHECK(net.report().total.messages == 1);
        CHECK(net.report().input.messages > 1);
        CHECK(net.report().input.bytes == net.network.counters(net.peer.id, Direction::up).delivered_bytes);
        net.network.disconnect(net.peer.id);
        net.peer.left = true;
        net.step();
        ClientReport report = net.report();
        CHECK_FALSE(report.connected);
        CHECK(report.visible == 0);
        CHECK(report.total.messages == 0);
        CHECK(report.input.messages == 0);
        CHECK_FALSE(net.server.client_report(999).connected);
        auto& again = net.connect();
        REQUIRE(again.id == net.peer.id);
        net.step();
        report = net.report();
        CHECK(report.connected);
        CHECK_FALSE(report.joined);
        CHECK(report.total.bytes == 0);
        CHECK(report.input.messages == 0);
    }

    TEST_CASE("report: malformed messages are counted for the client that sent them") {
        Net net;
        auto& other = net.connect();
        net.settle();
        const std::byte bad[3] = {std::byte{99}, std::byte{1}, std::byte{2}};
        REQUIRE(net.network.client(other.id).send(Channel::unreliable, bad) == SendResult::accepted);
        net.network.client(other.id).flush(net.now_us);
        const u64 bytes = net.server.client_report(other.id).input.bytes;
        net.step();
        CHECK(net.server.client_report(other.id).input.malformed_messages == 1);
        CHECK(net.server.client_report(other.id).input.bytes == bytes + 3);
        CHECK(net.report().input.malformed_messages == 0);
    }

    TEST_CASE("report: typed messages by client, channel and type") {
        Reader reader;
        message_test::MessageWorldOptions options;
        options.network.trace = reader.hook();
        message_test::MessageWorld net(options);
        using message_test::Chat, message_test::Hit, message_test::Attack, message_test::Spark, message_test::Rumour;
        auto &one = net.join(), &two = net.join();
        const Entity e = net.spawn();
        net.steps(4);
        for (const auto* peer : {&one, &two})
            CHECK(net.server.client_report(peer->id).total.typed_bundles == 0);
        reader.take(one.id), reader.take(two.id);
        REQUIRE(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
        REQUIRE(net.server.send_message(To::client(one.id), Hit{e, 2}) == Error::none);
        REQUIRE(net.server.send_message(To::client(one.id), Chat{e, "hello"}) == Error::none);
        REQUIRE(net.server.send_message(To::all(), Rumour{e, 3}) == Error::none);
        REQUIRE(net.server.send_message(To::all_except(one.id), Spark{e, 4}) == Error::none);
        net.step();
        const ClientTraffic to_one = net.server.client_report(one.id).last, to_two = net.server.client_report(two.id).last;
        constexpr auto unreliable = static_cast<u32>(Channel::unreliable), unordered = static_cast<u32>(Channel::unordered),
                       ordered = static_cast<u32>(Channel::ordered);
        CHECK(to_one.typed_messages[ordered] == 3);
        CHECK(to_one.typed_messages[unordered] == 1);
        CHECK(to_one.typed_messages[unreliable] == 0);
        CHECK(to_two.typed_messages[ordered] == 1);
        CHECK(to_two.typed_messages[unordered] == 1);
        CHECK(to_two.typed_messages[unreliable] == 1);
        CHECK(to_one.typed_bundles == 2);
        CHECK(to_two.typed_bundles == 3);
        check_sent(to_one, reader.take(one.id));
        check_sent(to_two, reader.take(two.id));
        CHECK(to_one.typed_bundles + to_two.typed_bundles == net.report->typed.bundles);
        CHECK(to_one.typed_bytes + to_two.typed_bytes == net.report->typed.bytes);
        CHECK(net.report->typed.deliveries == 7);
        CHECK(net.server.messages_sent<Hit>(one.id) == 2);
        CHECK(net.server.messages_sent<Hit>(two.id) == 1);
        CHECK(net.server.messages_sent<Chat>(one.id) == 1);
        CHECK(net.server.messages_sent<Chat>(two.id) == 0);
        CHECK(net.server.messages_sent<Spark>(two.id) == 1);

        REQUIRE(one.client->send_message(Attack{net.shown(one, e), 1}) == Error::none);
        REQUIRE(one.client->send_message(Attack{net.shown(one, e), 2}) == Error::none);
        REQUIRE(one.client->send_message(Chat{{}, "!"}) == Error::none); // its own function refuses that
        net.steps(2);
        CHECK(net.server.messages_received<Attack>(one.id) == 2);
        CHECK(net.server.messages_received<Chat>(one.id) == 0);
        CHECK(net.server.messages_received<Attack>(two.id) == 0);
        CHECK(net.server.client_report(one.id).input.typed_messages == 2);
        CHECK(net.server.client_report(one.id).input.malformed_messages == 1);
        CHECK(net.server.client_report(one.id).input.typed_dropped == 0);
        const Entity shown = net.shown(one, e);
        net.server.view(one.id).hide(e);
        REQUIRE(one.client->send_message(Attack{shown, 3}) == Error::none); // it does not know yet
        net.server_step();
        net.client_step(one);
        net.steps(2);
        CHECK(net.server.client_report(one.id).input.typed_dropped == 1);
        CHECK(net.server.client_report(one.id).input.typed_messages == 2);
    }

    TEST_CASE("report: of a component, who has it, what changed, and what it took in the sections") {
        Net net;
        auto& other = net.connect();
        std::vector<Entity> all;
        for (int i = 0; i < 4; ++i)
            all.push_back(net.world.spawn(Health{i, false}, Name{"abc"}, Replicated{}));
        net.world.remove<Name>(all[3]);
        net.world.spawn(Health{9, false}); // not replicated
        net.settle();
        net.server.view(other.id).hide(all[0]);
        net.settle();
        REQUIRE(net.server.settled(other.id));
        ComponentReport health = net.server.component_report<Health>();
        CHECK(std::string(health.name) == "health");
        CHECK(health.entities == 4);
        CHECK(health.held == 7);
        CHECK(health.changed == 0);
        CHECK(health.opaque_bytes == 0);
        CHECK(health.last.sections == 0);
        const ComponentCost before = health.total;
        CHECK(before.sections == 2); // the other client came later
        CHECK(net.server.component_report<Name>().entities == 3);
        CHECK(net.server.component_report<Name>().held == 5);
        CHECK(net.server.component_report<Name>().opaque_bytes == 9);
        CHECK(net.server.component_report<Replicated>().name == nullptr);

        net.server.view(other.id).show(all[0]);
        net.settle();
        REQUIRE(net.server.settled(other.id));
        net.world.mut<Health>(all[1])->hp = 2; // it was 1
        net.world.mut<Name>(all[2])->text = "efgh";
        net.world.mut<Health>(all[2])->hp = 2; // as it was
        net.step();
        health = net.server.component_report<Health>();
        CHECK(health.changed == 1);
        CHECK(health.last.sections == 1); // one for both clients
        // Listed, structure; width, sparse, the codes of two lanes (sparse: 2 bits to say which, 2 of the code); the other column's width.
        const u64 health_bits = 2 + (6 + 1 + 2 * 2) + 5;
        CHECK(health.last.bits == health_bits);
        const ComponentReport name = net.server.component_report<Name>();
        CHECK(name.changed == 1);
        CHECK(name.opaque_bytes == 10);
        CHECK(name.last.sections == 1);
        // Listed, structure, all; which of two lanes; width, one length; the bytes.
        const u64 name_bits = 2 + 1 + 2 + 5 + 3 + 8 * 4;
        CHECK(name.last.bits == name_bits);
        const ComponentReport place = net.server.component_report<Place>();
        CHECK(place.changed == 0);
        CHECK(place.last.sections == 0);
        CHECK(place.last.bits == 1);
        // That is all there is, beside flags, age and lanes.
        std::byte mask[16];
        BitWriter writer(mask);
        write_lane_mask(writer, 6);
        u64 bits = writer.bit_count();
        for (const ComponentInfo& info : net.protocol->components())
            bits += net.server.component_report(info.id).last.bits;
        CHECK(net.report().last.payload_bytes == 2 + (bits - 32 + 7) / 8 + 4);

        net.step();
        CHECK(net.server.component_report<Health>().changed == 0);
        CHECK(net.server.component_report<Health>().last.bits == 0);
        net.world.add<Speed>(all[0], Speed{1, 0});
        net.world.remove<Name>(all[1]);
        net.step();
        CHECK(net.server.component_report<Speed>().changed == 1);
        CHECK(net.server.component_report<Name>().changed == 1);
        CHECK(net.server.component_report<Health>().changed == 0);
        CHECK(net.server.component_report<Name>().opaque_bytes == 7);
        net.world.spawn(Health{5, false}, Replicated{});
        net.step();
        CHECK(net.server.component_report<Health>().changed == 1);
    }

    TEST_CASE("report: full states as sent, and as packed without zstd") {
        u64 packed = 0;
        for (const Compression compression : {Compression::never, Compression::automatic, Compression::always}) {
            CAPTURE(int(compression));
            Net net({.heartbeat_ticks = 0, .compression = compression});
            Entity entity;
            for (int i = 0; i < 20; ++i) // one packet even if packed
                entity = net.world.spawn(Name{std::string(40, char('a' + i % 20))}, Replicated{});
            const auto full = [&] {
                WorkerState::FullPayloads sum;
                for (const WorkerState& worker : net.server.state().workers) {
                    sum.sent += worker.full_payloads.sent;
                    sum.packed += worker.full_payloads.packed;
                }
                return sum;
            };
            CHECK(full().sent == 0);
            const TickReport& report = net.step();
            REQUIRE(report.sent_full_lanes == 20);
            CHECK(full().sent == report.payload_bytes);
            CHECK((full().sent < full().packed) == (compression == Compression::automatic));
            if (compression == Compression::never)
                packed = full().packed;
            if (compression == Compression::automatic)
                CHECK(full().packed == packed); // the same, exactly
            net.step();
            const u64 before = full().sent;
            net.world.mut<Name>(entity)->text = "a delta is none";
            CHECK(net.step().delta_sections == 1);
            CHECK(full().sent == before);
        }
    }

    TEST_CASE("report: of opaque values, those of entities that ended where nobody looks are not counted") {
        Net net;
        const Entity far = net.world.spawn(Place{500, 500}, Name{"far away"}, Replicated{});
        const Entity near = net.world.spawn(Place{0, 0}, Name{"here"}, Replicated{});
        auto& peer = *net.peers.front();
        net.server.view(peer.id).look_at(500, 500, {.radius = 60});
        net.settle();
        CHECK(net.server.component_report<Name>().opaque_bytes == 8); // where nobody has looked, nothing is taken
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        net.settle();
        CHECK(net.server.component_report<Name>().opaque_bytes == 12);
        net.world.destroy(far);
        net.settle();
        CHECK(net.server.component_report<Name>().opaque_bytes == 4);
        net.world.destroy(near);
        net.settle();
        CHECK(net.server.component_report<Name>().opaque_bytes == 0);
    }

    TEST_CASE("report: what a component took does not depend on whether sections are cut, or on zstd") {
        u64 bits[3] = {};
        int run = 0;
        for (const Compression compression : {Compression::never, Compression::automatic, Compression::always}) {
            Net net({.heartbeat_ticks = 0, .compression = compression});
            for (int i = 0; i < 60; ++i)
                net.world.spawn(Name{std::string(50, char('a' + i % 20))}, Replicated{});
            const TickReport& report = net.step();
            CHECK((report.zstd_bytes > 0) == (compression != Compression::never));
            const ComponentReport name = net.server.component_report<Name>();
            CHECK(name.last.sections == (compression == Compression::never ? 4 : 1)); // 3000 bytes, or what becomes of them
            bits[run++] = name.last.bits;
            CHECK(bits[run - 1] >= 60 * 50 * 8);
            CHECK(bits[run - 1] < 60 * 50 * 8 + 60 * 12 + 64);
        }
        CHECK(bits[1] <= bits[0]);
    }
}
