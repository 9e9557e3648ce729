// Components of which changes are sent instead of the whole (OpaqueBuilder::diffs).
#include "tests/conformance/rules_support.hpp"
#include "tests/support/journal.hpp"
#include "throng/changes.hpp"
#include "throng/messenger.hpp"

using namespace throng;
using namespace conformance::state;
using throng_test::Journal;
using throng_test::Line;

namespace {

constexpr u32 long_text = 1000;

struct Saying { // a message
    std::string text;
};
u32 write_saying(const void* message, std::span<std::byte> out) {
    return throng_test::write_text(static_cast<const Saying*>(message)->text, out);
}
Error read_saying(void* message, std::span<const std::byte> in) {
    static_cast<Saying*>(message)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

struct Fixed {
    using immutable = void;
};

StateNet journal_net(const DiffOptions& options = {}) {
    return make_net([&](Protocol& p) {
        throng_test::journal(p, options);
        health(p);
    });
}

std::string text(StateNet& net, const StateNet::Peer& peer, Entity entity) {
    const Journal* const journal = net.value<Journal>(peer, entity);
    return journal ? journal->text : "none";
}

/// Opaque bytes that the client has received of the journal.
u64 journal_bytes(const StateNet::Peer& peer) {
    return peer.client->component_report<Journal>().opaque_bytes;
}

struct Kept {
    explicit Kept(StateNet& net)
        : peer(net.join()), entity(net.world.spawn(Journal{std::string(long_text, '.')}, Health{1, false}, Replicated{})) {
        net.agree();
        bytes = journal_bytes(peer);
    }
    /// What the client has received since the last call.
    u64 received() { return journal_bytes(peer) - std::exchange(bytes, journal_bytes(peer)); }
    StateNet::Peer& peer;
    Entity entity;
    u64 bytes = 0;
};

void put(StateNet& net, Entity entity, const char* line) {
    CHECK(net.server.apply_diff<Journal>(entity, Line{line}) == Error::none);
}

} // namespace

TEST_CASE("diff/component") {
    StateNet net = journal_net();
    Kept kept(net);
    put(net, kept.entity, "one line");
    CHECK(net.world.get<Journal>(kept.entity)->text == std::string(long_text, '.') + "one line");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "one line");
    CHECK(kept.received() < 60);
}

TEST_CASE("diff/resource") {
    StateNet net = make_net([](Protocol& p) {
        p.resource<Journal>("log", 2000, OpaqueFunctions{throng_test::write_journal, throng_test::read_journal})
            .diffs(throng_test::write_line, throng_test::read_line, throng_test::put_line);
    });
    auto& peer = net.join();
    CHECK(net.server.apply_resource_diff<Journal>(Line{"too early"}) == Error::bad_value);
    net.world.resources().emplace<Journal>(Journal{std::string(long_text, '.')});
    CHECK(net.server.apply_resource_diff<Journal>(Line{"a"}) == Error::none); // before clients hear of it
    net.agree();
    const auto there = [&] { return peer.world->resources().get<Journal>(); };
    REQUIRE(there());
    CHECK(there()->text == std::string(long_text, '.') + "a");
    const u64 before = peer.client->component_report<ResourceValue<Journal>>().opaque_bytes;
    CHECK(net.server.apply_resource_diff<Journal>(Line{"bc"}) == Error::none);
    CHECK(net.server.apply_resource_diff<Journal>(Line{"d"}) == Error::none);
    net.agree();
    CHECK(there()->text == std::string(long_text, '.') + "abcd");
    CHECK(peer.client->component_report<ResourceValue<Journal>>().opaque_bytes - before < 60);
    net.world.resources().mut<Journal>()->text = "anew";
    net.agree();
    CHECK(there()->text == "anew");
}

TEST_CASE("diff/message_loss") {
    StateNet net = journal_net();
    Kept kept(net);
    net.script_loss(kept.peer, 100, 0);
    put(net, kept.entity, "lost ");
    net.steps(2);
    net.script_loss(kept.peer, 0, 0);
    put(net, kept.entity, "seen");
    net.steps(3);
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "lost seen");
    CHECK(kept.received() < 30); // both, in one message
    net.agree();
}

TEST_CASE("diff/outside_of_history_window") {
    StateNet net = journal_net({.history = 5});
    Kept kept(net);
    net.script_loss(kept.peer, 100, 0);
    for (const char* line : {"1", "2", "3", "4", "5", "6"}) {
        put(net, kept.entity, line);
        net.step();
    }
    net.script_loss(kept.peer, 0, 0);
    put(net, kept.entity, "7");
    net.steps(3);
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "1234567");
    CHECK(kept.received() >= long_text); // the whole
    net.restore_link(kept.peer);
    put(net, kept.entity, "8");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "12345678");
}

TEST_CASE("diff/external_mutation") {
    StateNet net = journal_net();
    Kept kept(net);
    net.perfect_link(kept.peer, Reason::counts_packets);
    net.world.mut<Journal>(kept.entity)->text[0] = '!';
    net.steps(3);
    CHECK(text(net, kept.peer, kept.entity)[0] == '!');
    CHECK(kept.received() >= long_text);
    // Beside diffs of the same tick, before and after them.
    for (const bool before : {true, false}) {
        if (before)
            net.world.mut<Journal>(kept.entity)->text[1] = '?';
        put(net, kept.entity, "+");
        if (!before)
            net.world.mut<Journal>(kept.entity)->text[2] = '?';
        net.steps(3);
        CHECK(text(net, kept.peer, kept.entity) == net.world.get<Journal>(kept.entity)->text);
        CHECK(kept.received() >= long_text);
    }
    // And then diffs go on.
    put(net, kept.entity, "last");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string("!??").append(long_text - 3, '.').append("++last"));
    CHECK(kept.received() < 30);
}

TEST_CASE("fns/write_diff") {
    // Two diffs from the first state give their sum: as the world's component, and to functions of the client's own.
    struct Heard {
        std::string text;
        int calls = 0;
    } heard;
    StateNet net = journal_net();
    ReceiveRules rules(*net.protocol);
    REQUIRE(rules.marker<Local>() == Error::none);
    REQUIRE((rules.functions_for<Local, Journal>(
                [](const Received& received, const Journal& journal) {
                    auto& ear = *static_cast<Heard*>(received.context);
                    ear.text = journal.text;
                    ++ear.calls;
                },
                nullptr, &heard)) == Error::none);
    ClientConfig config;
    config.rules = &rules;
    HeldBack held(net, Reason::counts_packets, config);
    const Entity e = net.world.spawn(Journal{}, Replicated{});
    const Entity marked = net.world.spawn(Journal{std::string(long_text, '.')}, Health{}, Replicated{});
    net.settle();
    held.peer.world->add<Local>(net.shown(held.peer, marked));
    for (const Entity entity : {e, marked}) {
        put(net, entity, "first ");
        put(net, entity, "second");
    }
    net.settle();
    CHECK(text(net, held.peer, e) == "first second");
    CHECK(heard.text == std::string(long_text, '.') + "first second");
    CHECK(heard.calls == 1);
    CHECK(text(net, held.peer, marked) == std::string(long_text, '.')); // as it was when the functions took over
    put(net, marked, ", third");
    net.settle();
    CHECK(heard.text == std::string(long_text, '.') + "first second, third");
    held.peer.world->remove<Local>(net.shown(held.peer, marked));
    put(net, marked, ".");
    net.settle();
    CHECK(text(net, held.peer, marked) == std::string(long_text, '.') + "first second, third.");
    CHECK(heard.calls == 2);
}

TEST_CASE("diff/smaller_than_the_whole") {
    // The same play with and without diffs, over links without loss: bytes of state in all.
    u64 bytes[2] = {};
    for (const bool diffs : {false, true}) {
        StateNet net = make_net([&](Protocol& p) { diffs ? throng_test::journal(p) : throng_test::whole_journal(p); });
        std::vector<Entity> all;
        for (int i = 0; i < 20; ++i)
            all.push_back(net.world.spawn(Journal{words(100, i)}, Replicated{}));
        for (int i = 0; i < 3; ++i)
            net.perfect_link(net.join(), Reason::counts_packets);
        net.agree();
        for (int tick = 0; tick < 50; ++tick) {
            for (std::size_t i = static_cast<std::size_t>(tick % 4); i < all.size(); i += 4) {
                const Line line{std::to_string(tick)};
                if (diffs)
                    CHECK(net.server.apply_diff<Journal>(all[i], line) == Error::none);
                else
                    CHECK(throng_test::put_line(*net.world.mut<Journal>(all[i]), line) == Error::none);
            }
            bytes[diffs] += net.step().bytes;
        }
        net.agree();
    }
    MESSAGE("state bytes of 50 ticks: whole " << bytes[0] << ", diffs " << bytes[1]);
    CHECK(bytes[1] * 4 < bytes[0]);
}

TEST_CASE("diff/doubled_and_late") {
    StateNet net = journal_net();
    HeldBack held(net, Reason::holds_back);
    const Entity e = net.world.spawn(Journal{std::string(long_text, '.')}, Replicated{});
    net.settle();
    std::string wanted = net.world.get<Journal>(e)->text;
    for (const bool newest_first : {false, true}) {
        held.gate.newest_first = newest_first;
        held.gate.closed = true;
        for (const char* line : {"a", "b", "c"}) {
            put(net, e, line); // each message repeats what has not been acknowledged
            wanted += line;
            net.steps(2);
        }
        held.gate.closed = false;
        net.step();
        CHECK(text(net, held.peer, e) == wanted);
        std::vector<ScriptStep> twice;
        for (u64 packet = 0; packet < 6; ++packet)
            twice.push_back({packet, ScriptAction::duplicate, 60'000});
        net.script_packets(held.peer, Direction::down, twice);
        put(net, e, "d");
        wanted += "d";
        net.steps(6);
        CHECK(text(net, held.peer, e) == wanted);
    }
    net.agree();
    CHECK(journal_bytes(held.peer) < long_text + 200);
}

TEST_CASE("diff/more_in_a_tick_than_are_kept") {
    StateNet net = journal_net({.history = 3});
    Kept kept(net);
    net.perfect_link(kept.peer, Reason::counts_packets);
    for (const char* line : {"1", "2", "3"})
        put(net, kept.entity, line);
    net.steps(3);
    CHECK(kept.received() < 30);
    for (const char* line : {"4", "5", "6", "7"})
        put(net, kept.entity, line);
    net.steps(3);
    CHECK(kept.received() >= long_text);
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "1234567");
    const std::string large(900, 'x');
    put(net, kept.entity, large.c_str());
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == net.world.get<Journal>(kept.entity)->text);
}

TEST_CASE("diff/refused") {
    StateNet net = journal_net();
    Kept kept(net);
    CHECK(net.server.apply_diff<Journal>(kept.entity, Line{std::string(3000, 'x')}) == Error::too_large); // by its function
    CHECK(net.server.apply_diff<Health>(kept.entity, Line{"x"}) == Error::bad_value);
    CHECK(net.server.apply_diff<Journal>(kept.entity, Health{}) == Error::bad_value);
    CHECK(net.server.apply_diff<Local>(kept.entity, Line{"x"}) == Error::bad_value);
    CHECK(net.server.apply_diff<Journal>(Entity{}, Line{"x"}) == Error::bad_value);
    CHECK(net.server.apply_diff<Journal>(net.world.spawn(Health{}), Line{"x"}) == Error::bad_value);
    CHECK(net.server.apply_resource_diff<Journal>(Line{"x"}) == Error::bad_value);
    CHECK(net.state_bytes(5) == 0);
    CHECK(net.world.get<Journal>(kept.entity)->text == std::string(long_text, '.'));
}

TEST_CASE("diff/entities_that_come_and_go") {
    StateNet net = journal_net();
    Kept kept(net);
    net.world.remove<Replicated>(kept.entity); // paused
    net.settle();
    put(net, kept.entity, "while paused ");
    net.settle();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.'));
    net.world.add<Replicated>(kept.entity);
    put(net, kept.entity, "and after");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "while paused and after");
    net.server.view(kept.peer.id).hide(kept.entity);
    put(net, kept.entity, ", hidden");
    net.agree();
    put(net, kept.entity, ", still");
    net.server.view(kept.peer.id).show(kept.entity);
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "while paused and after, hidden, still");
    // Another one in its place, in one tick.
    net.world.remove<Journal>(kept.entity);
    net.world.add<Journal>(kept.entity, Journal{"new"});
    put(net, kept.entity, " one");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == "new one");
    // Who comes later gets the whole; then both get the same.
    auto& late = net.join();
    put(net, kept.entity, " for all");
    net.agree();
    CHECK(text(net, late, kept.entity) == "new one for all");
}

TEST_CASE("diff/of_an_audience") {
    StateNet net = make_net([](Protocol& p) { throng_test::journal(p).audience(Audience::owner); });
    auto& first = net.join();
    auto& second = net.join();
    const Entity e = net.world.spawn(Journal{std::string(long_text, '.')}, OwnedBy{first.id}, Replicated{});
    net.agree();
    for (const char* line : {"a", "b"}) {
        put(net, e, line);
        net.agree();
    }
    CHECK(text(net, first, e) == std::string(long_text, '.') + "ab");
    CHECK(journal_bytes(first) < long_text + 100);
    CHECK(text(net, second, e) == "none");
    *net.world.mut<OwnedBy>(e) = {second.id};
    put(net, e, "c");
    net.agree();
    CHECK(text(net, first, e) == "none");
    CHECK(text(net, second, e) == std::string(long_text, '.') + "abc");
    CHECK(journal_bytes(second) >= long_text);
}

TEST_CASE("diff/with_rules") {
    // Two names of the type, and the one that travels changes in between.
    StateNet net = make_net([](Protocol& p) {
        throng_test::journal(p).when(without<Important>);
        p.opaque<Journal>("important journal", 2000, throng_test::write_journal, throng_test::read_journal)
            .diffs(throng_test::write_line, throng_test::read_line, throng_test::put_line)
            .when(with<Important>);
    });
    Kept kept(net);
    std::string wanted(long_text, '.');
    for (const bool important : {true, false, true}) {
        put(net, kept.entity, "a");
        important ? void(net.world.add<Important>(kept.entity)) : void(net.world.remove<Important>(kept.entity));
        net.agree();
        put(net, kept.entity, "b");
        net.agree();
        CHECK(text(net, kept.peer, kept.entity) == (wanted += "ab"));
    }
}

TEST_CASE("diff/what_the_client_does_is_undone") {
    // Diffs are done to what was received, not to what the game has made of it.
    StateNet net = journal_net();
    Kept kept(net);
    kept.peer.world->mut<Journal>(net.shown(kept.peer, kept.entity))->text = "mine";
    put(net, kept.entity, "!");
    net.agree();
    CHECK(text(net, kept.peer, kept.entity) == std::string(long_text, '.') + "!");
    kept.peer.world->remove<Journal>(net.shown(kept.peer, kept.entity));
    put(net, kept.entity, "?");
    net.settle();
    CHECK(text(net, kept.peer, kept.entity) == "none"); // as with any component that the game takes off
    CHECK(kept.received() < 60);
}

namespace {
/// A game's rule, the same in each set-up: what is heard is written down.
struct Scribe {
    Messenger& messages;
    Entity page;
    std::vector<Error> errors;
    void handle(const Saying& saying, const Sender&) {
        errors.push_back(messages.apply_diff<Journal>(page, Line{saying.text}));
        errors.push_back(messages.apply_resource_diff<Journal>(Line{saying.text}));
    }
    bool good() const { return errors.size() == 2 && errors[0] == Error::none && errors[1] == Error::none; }
};
} // namespace

TEST_CASE("diff/four_set_ups") {
    const auto registrations = [](Protocol& p) {
        throng_test::journal(p);
        p.resource<Journal>("log", 2000, OpaqueFunctions{throng_test::write_journal, throng_test::read_journal})
            .diffs(throng_test::write_line, throng_test::read_line, throng_test::put_line);
        p.message<Saying>("saying", {.route = Route::to_server}).rest(write_saying, read_saying);
    };
    const auto prepare = [](World& world) {
        world.resources().emplace<Journal>(Journal{std::string(long_text, '.')});
        return world.spawn(Journal{std::string(long_text, '-')}, Replicated{});
    };
    const auto check = [](const World& world, Entity page, const std::string& line) {
        REQUIRE(world.get<Journal>(page));
        CHECK(world.get<Journal>(page)->text == std::string(long_text, '-') + line);
        REQUIRE(world.resources().get<Journal>());
        CHECK(world.resources().get<Journal>()->text == std::string(long_text, '.') + line);
    };
    for (const bool with_local_player : {false, true}) { // a dedicated server, a listen server, and their clients
        CAPTURE(with_local_player);
        StateNet net = make_net(registrations);
        auto& peer = net.join();
        const Entity page = prepare(net.world);
        net.agree();
        Messenger host(*net.protocol, {.server = &net.server, .local_player = with_local_player});
        Messenger guest(*net.protocol, {.client = peer.client.get()});
        Scribe scribe{host, page, {}};
        REQUIRE(host.set_server_handlers(handlers<Saying>(scribe)) == Error::none);
        u64 bytes = journal_bytes(peer);
        CHECK(guest.to_server(Saying{"from afar"}) == Error::none);
        REQUIRE(net.until([&] { return !scribe.errors.empty(); }));
        net.agree();
        CHECK(scribe.good());
        check(net.world, page, "from afar");
        check(*peer.world, net.shown(peer, page), "from afar");
        CHECK(journal_bytes(peer) - bytes < 60); // as a diff
        CHECK(host.apply_diff<Journal>(net.world.create(), Line{"x"}) == Error::bad_value);

        scribe.errors.clear();
        CHECK(host.to_server(Saying{", at home"}) == (with_local_player ? Error::none : Error::no_connection));
        host.dispatch();
        CHECK(scribe.good() == with_local_player);
        net.agree();
        check(*peer.world, net.shown(peer, page), with_local_player ? "from afar, at home" : "from afar");

        Scribe far{guest, net.shown(peer, page), {}}; // the same rule would change nothing on a client
        far.handle(Saying{"nothing"}, {});
        CHECK(far.errors == std::vector<Error>{Error::no_connection, Error::no_connection});
        check(*peer.world, far.page, with_local_player ? "from afar, at home" : "from afar");
    }
    Protocol protocol; // single player
    registrations(protocol);
    REQUIRE(protocol.finish() == Error::none);
    World world;
    const Entity page = prepare(world);
    ChangeReader<Journal> changes(world);
    changes.each([](Entity, const Journal&) {});
    const u32 version = world.resources().version<Journal>();
    Messenger alone(protocol, {.local_player = true, .world = &world});
    Scribe scribe{alone, page, {}};
    REQUIRE(alone.set_server_handlers(handlers<Saying>(scribe)) == Error::none);
    CHECK(alone.to_server(Saying{"alone"}) == Error::none);
    CHECK(alone.dispatch() == 1);
    CHECK(scribe.good());
    check(world, page, "alone");
    int changed = 0;
    changes.each([&](Entity e, const Journal&) { changed += e == page; });
    CHECK(changed == 1);
    CHECK(world.resources().version<Journal>() != version);
    CHECK(alone.apply_diff<Journal>(page, Line{std::string(2000, 'x')}) == Error::too_large); // what the function says
    CHECK(alone.apply_diff<Journal>(world.create(), Line{"x"}) == Error::bad_value);
    CHECK(alone.apply_diff<Health>(page, Line{"x"}) == Error::bad_value);
    CHECK(alone.apply_diff<Journal>(page, Saying{"x"}) == Error::bad_value);
    world.resources().remove<Journal>();
    CHECK(alone.apply_resource_diff<Journal>(Line{"x"}) == Error::bad_value);
    CHECK(world.get<Journal>(page)->text == std::string(long_text, '-') + "alone");
    Messenger nowhere(protocol, {.local_player = true}); // whose world is not known
    CHECK(nowhere.apply_diff<Journal>(page, Line{"x"}) == Error::bad_value);
}

TEST_CASE("diff/builds") {
    const auto error_of = [](auto&& theirs, auto&& ours) {
        Protocol server, client, read;
        theirs(server), ours(client);
        REQUIRE(server.finish() == Error::none);
        REQUIRE(client.finish() == Error::none);
        CHECK((server.hash() == client.hash()) == (server.table().size() == client.table().size() &&
                                                   std::equal(server.table().begin(), server.table().end(), client.table().begin())));
        const Error error = read.read_table(server.table(), client);
        return std::pair(error, std::string(read.problem()));
    };
    const auto with = [](Protocol& p) { throng_test::journal(p); };
    const auto other = [](Protocol& p) { throng_test::journal(p, {.history = 7}); };
    const auto without = [](Protocol& p) { throng_test::whole_journal(p); };
    const auto none = [](Protocol& p) { health(p); };
    CHECK(error_of(with, with).first == Error::none);
    CHECK(error_of(with, other).first == Error::none);
    CHECK(error_of(without, with).first == Error::none); // such a server never sends any
    CHECK(error_of(with, none).first == Error::none);
    CHECK(error_of(with, without) == std::pair(Error::wrong_protocol, std::string("component \"journal\": without diffs here")));

    // A client that does not know the component, and one whose server has no diffs.
    for (const bool unknown : {true, false}) {
        Protocol ours;
        health(ours);
        if (!unknown)
            throng_test::journal(ours);
        REQUIRE(ours.finish() == Error::none);
        StateNet net = make_net([&](Protocol& p) {
            unknown ? throng_test::journal(p) : throng_test::whole_journal(p);
            health(p);
        });
        auto& peer = net.meet();
        peer.client = std::make_unique<Client>(*peer.world, ours, net.network.client(peer.id));
        REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
        const Entity e = net.world.spawn(Journal{std::string(long_text, '.')}, Health{1, false}, Replicated{});
        net.settle();
        for (int hp = 2; hp < 5; ++hp) {
            CHECK(net.server.apply_diff<Journal>(e, Line{"x"}) == (unknown ? Error::none : Error::bad_value));
            if (!unknown)
                CHECK(throng_test::put_line(*net.world.mut<Journal>(e), {"x"}) == Error::none);
            net.world.mut<Health>(e)->hp = hp;
            net.settle();
            CHECK(net.hp(peer, e) == hp);
        }
        CHECK(peer.client->stats().unapplied_opaque == 0);
        CHECK(text(net, peer, e) == (unknown ? "none" : std::string(long_text, '.') + "xxx"));
        peer.client.reset();
        peer.left = true;
    }
}

TEST_CASE("diff/wrong_registrations") {
    using namespace throng_test;
    const auto problem_of = [](auto&& registrations) {
        Protocol p;
        registrations(p);
        CHECK(p.finish() == Error::bad_value);
        return std::string(p.problem());
    };
    CHECK(problem_of([](Protocol& p) { whole_journal(p).diffs(write_line, read_line, put_line, {.history = 0}); }) ==
          "component \"journal\": a history of diffs has 1 to 4096 of them");
    CHECK(problem_of([](Protocol& p) { whole_journal(p).diffs(write_line, read_line, static_cast<decltype(&put_line)>(nullptr)); }) ==
          "component \"journal\": diffs need three functions");
    CHECK(problem_of([](Protocol& p) { journal(p).once(); }) == "component \"journal\": what is immutable or sent once has no diffs");
    CHECK(problem_of([](Protocol& p) {
              p.opaque<Fixed>("fixed", 10, write_journal, read_journal)
                  .diffs(write_line, read_line,
                         static_cast<Error (*)(Fixed&, const Line&)>([](Fixed&, const Line&) { return Error::none; }));
          }) == "component \"fixed\": what is immutable or sent once has no diffs");
    CHECK(problem_of([](Protocol& p) { p.opaque<Name>("name", 10, write_name, read_name).diffs(write_line, read_line, put_line); }) ==
          "component \"name\": its diffs apply to another type");
}
