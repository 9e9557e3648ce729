// Nothing hidden leaks by way of diffs, audiences, resources, clusters and typed messages: texts that only some clients may be sent are
// searched in the bytes to each.
#include "tests/support/journal.hpp"
#include "tests/support/replication_world.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <set>
#include <string_view>

using namespace throng;
using namespace throng_test;

namespace {

/// Journals told apart by who sees them.
template <Audience>
struct Log : Journal {};
struct Orders : Journal {}; // a resource, its group's

struct Whisper { // a message
    std::string text;
};

template <class T>
OpaqueBuilder log_with_diffs(Protocol& protocol, const char* name) {
    return protocol.opaque<T>(name, journal_bytes_max, write_journal, read_journal)
        .diffs(
            write_line, read_line, +[](T& log, const Line& line) { return put_line(log, line); });
}

std::unique_ptr<Protocol> make_features_protocol() {
    auto protocol = std::make_unique<Protocol>();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    log_with_diffs<Log<Audience::everyone>>(*protocol, "open");
    log_with_diffs<Log<Audience::owner>>(*protocol, "own").audience(Audience::owner);
    log_with_diffs<Log<Audience::others>>(*protocol, "others").audience(Audience::others);
    log_with_diffs<Log<Audience::group>>(*protocol, "shared").audience(Audience::group);
    protocol->resource<Orders>("orders", journal_bytes_max, {write_journal, read_journal})
        .diffs(
            write_line, read_line, +[](Orders& orders, const Line& line) { return put_line(orders, line); })
        .audience(Audience::group);
    protocol->message<Whisper>("whisper", {.route = Route::to_client, .bytes_max = 100})
        .rest([](const void* whisper, std::span<std::byte> out) { return write_text(static_cast<const Whisper*>(whisper)->text, out); },
              [](void* whisper, std::span<const std::byte> in) {
                  static_cast<Whisper*>(whisper)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
                  return Error::none;
              });
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

/// Four clients, and which of the texts that were made by secret() each has been sent.
struct Searched {
    explicit Searched(const LinkConfig& link = {})
        : net({.compression = Compression::never}, {.trace = {look, this}}, make_features_protocol()) {
        for (int i = 0; i < 4; ++i)
            ids.push_back(net.connect(link, link).id);
        net.steps(10);
        for (const ClientId id : ids) {
            for (int i = 0; i < 100 && !net.server.joined(id); ++i)
                net.step();
            REQUIRE(net.server.joined(id));
        }
    }
    /// What was lost has gone again.
    void settle() {
        const auto open = [&] { return std::any_of(ids.begin(), ids.end(), [&](ClientId id) { return !net.server.settled(id); }); };
        for (int i = 0; i < 200 && (i < 5 || open()); ++i)
            net.step();
        REQUIRE(!open());
    }
    /// A text that `allowed` may see.
    std::string secret(std::set<ClientId> allowed) {
        std::string text = "<secret ";
        text.append(std::to_string(may.size())).append(">");
        may.emplace(text, std::move(allowed));
        return text;
    }
    /// Each text has gone to all that may see it and to nobody else.
    void check() const {
        for (const auto& entry : may) { // no structured binding: CAPTURE makes a lambda
            const std::string& text = entry.first;
            const std::set<ClientId>& allowed = entry.second;
            CAPTURE(text);
            const auto at = sent.find(text);
            CHECK((at == sent.end() ? std::set<ClientId>() : at->second) == allowed);
        }
    }
    static void look(void* context, const TraceRecord& record) {
        auto& self = *static_cast<Searched*>(context);
        if (record.direction != Direction::down || record.fate != Fate::sent)
            return;
        const std::string_view bytes(reinterpret_cast<const char*>(record.message.data()), record.message.size());
        for (std::size_t at = bytes.find("<secret "); at != bytes.npos; at = bytes.find("<secret ", at + 1))
            self.sent[std::string(bytes.substr(at, bytes.find('>', at) - at + 1))].insert(record.client);
    }

    std::map<std::string, std::set<ClientId>> may, sent; // by text
    std::vector<ClientId> ids;
    ReplicationWorld net; // traces into this
};

constexpr LinkConfig links[] = {
    {},
    {.loss_percent = 30, .delay_us = 40'000, .jitter_us = 60'000},
    {.loss_percent = 10, .delay_us = 20'000, .reorder_percent = 40, .reorder_extra_us = 150'000, .duplicate_percent = 20},
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("leaks: ops of diffs go to those who see their component, by audience, list and scope") {
        for (const LinkConfig& link : links) {
            CAPTURE(link.loss_percent);
            Searched game(link);
            auto& net = game.net;
            const std::set<ClientId> all(game.ids.begin(), game.ids.end());
            const ClientId owner = game.ids[0], member = game.ids[1], blind = game.ids[2];
            const GroupId group = net.server.make_group();
            net.server.add_to_group(group, member);
            const Entity open = net.world.spawn(Log<Audience::everyone>{}, Log<Audience::owner>{}, Log<Audience::others>{},
                                                Log<Audience::group>{}, OwnedBy{owner}, SharedWith{group}, Replicated{});
            const Entity hidden = net.world.spawn(Log<Audience::everyone>{}, Replicated{});
            const Entity scoped = net.world.spawn(Log<Audience::everyone>{}, Health{}, Replicated{},
                                                  ScopedTo(Scope::of<Log<Audience::everyone>>(), {.any_of = 1}));
            net.server.view(blind).hide(hidden);
            net.server.view(member).set_layers(1);
            net.steps(4);
            const auto without = [&](ClientId id) {
                std::set<ClientId> rest = all;
                rest.erase(id);
                return rest;
            };
            const auto tell = [&]<class T>(T*, Entity entity, std::set<ClientId> allowed) {
                CHECK(net.server.apply_diff<T>(entity, Line{game.secret(std::move(allowed))}) == Error::none);
            };
            for (int tick = 0; tick < 20; ++tick) {
                tell(static_cast<Log<Audience::everyone>*>(nullptr), open, all);
                tell(static_cast<Log<Audience::owner>*>(nullptr), open, {owner});
                tell(static_cast<Log<Audience::others>*>(nullptr), open, without(owner));
                tell(static_cast<Log<Audience::group>*>(nullptr), open, {member});
                tell(static_cast<Log<Audience::everyone>*>(nullptr), hidden, without(blind));
                tell(static_cast<Log<Audience::everyone>*>(nullptr), scoped, {member});
                net.step();
            }
            game.settle();
            game.check();
            CHECK(net.client_errors == 0);
        }
    }

    TEST_CASE("leaks: a resource with an audience, its values and its ops") {
        for (const LinkConfig& link : links) {
            CAPTURE(link.loss_percent);
            Searched game(link);
            auto& net = game.net;
            const GroupId group = net.server.make_group();
            net.server.add_to_group(group, game.ids[1]);
            net.world.resources().emplace<Orders>();
            net.step(); // makes the entity that it travels with
            REQUIRE(net.world.alive(net.server.resource_entity()));
            net.world.add<SharedWith>(net.server.resource_entity(), SharedWith{group});
            net.world.resources().mut<Orders>()->text = game.secret({game.ids[1]});
            net.steps(4);
            for (int tick = 0; tick < 10; ++tick) {
                CHECK(net.server.apply_resource_diff<Orders>(Line{game.secret({game.ids[1]})}) == Error::none);
                net.step();
            }
            game.settle();
            game.check();
        }
    }

    TEST_CASE("leaks: a hidden member of a cluster is in no byte of those that see the others") {
        for (const LinkConfig& link : links) {
            CAPTURE(link.loss_percent);
            Searched game(link);
            auto& net = game.net;
            const std::set<ClientId> all(game.ids.begin(), game.ids.end());
            const Entity root = net.world.spawn(Log<Audience::everyone>{}, Replicated{});
            const Entity seen = net.world.spawn(Log<Audience::everyone>{}, Link{root}, Replicated{});
            const Entity hidden = net.world.spawn(Log<Audience::everyone>{}, Link{root}, Replicated{});
            for (u32 i = 1; i < 4; ++i)
                net.server.view(game.ids[i]).hide(hidden);
            for (int tick = 0; tick < 20; ++tick) {
                net.world.mut<Log<Audience::everyone>>(root)->text = game.secret(all);
                net.world.mut<Log<Audience::everyone>>(seen)->text = game.secret(all);
                net.world.mut<Log<Audience::everyone>>(hidden)->text = game.secret({game.ids[0]});
                net.step();
            }
            game.settle();
            game.check();
        }
    }

    TEST_CASE("leaks: the bytes of typed messages go to their targets alone") {
        for (const LinkConfig& link : links) {
            CAPTURE(link.loss_percent);
            Searched game(link);
            auto& net = game.net;
            const std::vector<ClientId>& ids = game.ids;
            const GroupId group = net.server.make_group();
            net.server.add_to_group(group, ids[3]);
            net.server.add_to_group(group, ids[1]);
            const Entity entity = net.world.spawn(Health{}, Replicated{});
            net.server.view(ids[0]).hide(entity);
            net.server.view(ids[2]).set_layers(2);
            net.steps(4);
            const ClientId two[] = {ids[0], ids[2]};
            for (int tick = 0; tick < 10; ++tick) {
                const auto send = [&](const To& to, std::set<ClientId> allowed) {
                    CHECK(net.server.send_message(to, Whisper{game.secret(std::move(allowed))}) == Error::none);
                };
                send(To::all(), {ids.begin(), ids.end()});
                send(To::client(ids[1]), {ids[1]});
                send(To::all_except(two), {ids[1], ids[3]});
                send(To::group(group), {ids[1], ids[3]});
                send(To::layers(2), {ids[2]});
                send(To::observers(entity), {ids[1], ids[2], ids[3]});
                net.step();
            }
            game.settle();
            game.check();
        }
    }
}
