#include "tests/sim/simulation.hpp"
#include "src/server/state.hpp"
#include "tests/sim/counts.hpp"
#include "tests/sim/scenes.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

using namespace throng;
using throng_verify::Difference;
using throng_verify::Kind;

namespace throng_sim {

void* Simulation::counted_allocate(void* context, std::size_t bytes, std::size_t alignment) {
    static_cast<std::atomic<u64>*>(context)->fetch_add(1, std::memory_order_relaxed);
    return default_allocator().allocate(bytes, alignment);
}

void Simulation::counted_free(void*, void* memory, std::size_t bytes, std::size_t alignment) {
    default_allocator().free(memory, bytes, alignment);
}

namespace {
Plan prepared(u64 seed, const Options& options, const Allocator& allocator, OutputHash& output) {
    Plan plan(seed);
    if (plan.asks_host)
        plan.server.authorization = Authorization::custom;
    if (options.sabotage != Kind::none) { // what one build lacks, or is paused, or was when it ended, is compared with nothing in the end
        plan.mixed = plan.second_world = false;
        plan.server_build = {};
        plan.pause_chance = 0;
    }
    plan.server.executor = options.executor;
    plan.server.allocator = plan.client.allocator = plan.network.allocator = allocator;
    plan.network.trace = output.hook();
    return plan;
}
} // namespace

Simulation::Side::Side(const Protocol& its, bool requires_more) : protocol(its), functions(its), compare(its) {
    make_rules(functions, compare, requires_more);
}

Simulation::Simulation(const Protocol& protocol, u64 seed, const Options& options)
    : options_(options), plan_(prepared(seed, options, {counted_allocate, counted_free, &allocations_}, outcome_.output)),
      builds_{plan_.mixed ? make_protocol(plan_.server_build) : nullptr, plan_.mixed ? make_protocol(plan_.other_build) : nullptr},
      own_(plan_.mixed ? *builds_[0] : protocol, plan_.requires_more), random_(seed), rules_(seed ^ 0x9075), lists_(seed ^ 0x1157),
      priorities_(seed ^ 0x9218), scopes_(seed ^ 0x5c09e), verdicts_(seed ^ 0xadc1), bonds_(seed ^ 0xb04d), lifetimes_(seed ^ 0x11fe),
      signatures_(seed ^ 0x5191), ends_(seed ^ 0xe4d0), badges_(seed ^ 0xbad6e), dismissals_(seed ^ 0xd15a1), world_({.block_rows = 64}),
      network_(plan_.network), server_(world_, own_.protocol, server_backend(), plan_.server, {.context = this, .on_hello = on_hello}),
      actions_(plan_, random_, world_, server_, truth_), ruled_(seed ^ 0x2d1e, world_), bundles_(seed ^ 0xb4d1f, world_),
      family_(seed ^ 0xfa312, world_, server_, actions_, failure_, outcome_.tally),
      diffs_(seed ^ 0xd1ff, plan_.server_build, world_, server_), truth_(plan_.server_build, plan_.mixed ? &plan_.other_build : nullptr),
      filters_(seed ^ 0xf117e5, world_, server_, peers_),
      messages_(plan_, own_.protocol, world_, server_, truth_, peers_, failure_, outcome_.tally),
      component_counts_(seed, plan_.server_build, world_, server_, truth_, peers_, failure_, outcome_.tally),
      verifier_(own_.protocol, world_, server_) {
    if (plan_.mixed) {
        other_.emplace(*builds_[1], plan_.requires_more);
        common_ = make_protocol(common(plan_.server_build, plan_.other_build));
        other_verifier_.emplace(*common_, world_, server_);
    }
    if (plan_.second_world)
        second_.emplace(seed, options.executor, worlds_->mux, failure_);
    if (plan_.filter_chance > 0 && !filters_.add())
        failure_.report("a filter is refused");
    actions_.tracing = messages_.tracing = options.trace;
    for (throng_verify::Verifier* verifier : {&verifier_, other_verifier_ ? &*other_verifier_ : &verifier_}) {
        verifier->unhoused_allowed = plan_.server.chunks_max < 1000;
        verifier->dead_references_allowed = plan_.client_end_chance > 0;
        verifier->lasting_refused_allowed = plan_.server.lasting_max < 100;
        verifier->filtered = FilterActions::filtered;
        verifier->filter_context = &filters_;
    }
}

ServerBackend& Simulation::server_backend() {
    if (!plan_.multiplexed)
        return network_.server();
    return worlds_.emplace(network_.server(), plan_.server.allocator);
}

// ---------------------------------------------------------------------------------------------------- clients
void Simulation::join(bool faults) {
    if (peers_.size() >= plan_.clients_max)
        return;
    Random kind(plan_.seed * 31 + names_); // of its own: seeds without outsiders draw what they drew without this
    const bool dirty = faults && kind.chance(plan_.dirty_share), limited = faults && !dirty && kind.chance(plan_.limited_share);
    const LinkConfig down = faults ? plan_.faulty_link(random_, dirty) : LinkConfig{};
    const LinkConfig up = faults ? plan_.faulty_link(random_, dirty) : LinkConfig{};
    const ClientId id = network_.connect(down, up);
    ClientConfig config = limited ? plan_.limited : plan_.client;
    config.confirm_history = names_ % 2 != 0;
    const bool other = plan_.is_other(names_);
    const Side& side = other ? *other_ : own_;
    const ReceiveRules* const rules[] = {nullptr, &side.functions, &side.compare};
    config.rules = rules[names_ % 3];
    rooms_.push_back(plan_.multiplexed ? std::make_unique<OneRoom>(network_.client(id), plan_.client.allocator) : nullptr);
    ClientBackend& backend = plan_.multiplexed ? static_cast<ClientBackend&>(*rooms_.back()) : network_.client(id);
    peers_.push_back(std::make_unique<Peer>(side.protocol, other ? &plan_.other_build : nullptr,
                                            both(plan_.server_build, other ? plan_.other_build : plan_.server_build), backend, id, names_++,
                                            config, truth_, failure_, dirty, limited));
    peers_.back()->tracing = options_.trace;
    peers_.back()->requires_more = plan_.requires_more && config.rules == &side.compare;
    if (const Ticket ticket(peers_.back()->name); plan_.says_ticket && peers_.back()->client.set_hello_data(ticket.bytes()) != Error::none)
        failure_.report("a ticket is refused");
    if (worlds_)
        peers_.back()->id = ServerMultiplexer::nobody; // until it has a seat
    messages_.listen(*peers_.back());
    if (second_)
        second_->connect(rooms_.back()->mux(), id, dirty);
    if (options_.trace)
        std::printf("          client %u connects in slot %u%s%s\n", peers_.back()->name, id, dirty ? ", dirty" : "",
                    limited ? ", limited" : "");
}

void Simulation::count(const Peer& peer) {
    messages_.count(peer);
    outcome_.checks += peer.checks();
    outcome_.tally.add(Happening::ended_came_back, peer.came_back);
    outcome_.tally.add(Happening::required_added, peer.required_seen);
    outcome_.tally.add(Happening::bundle_shown, peer.bundles_seen);
    outcome_.tally.add(Happening::parent_shown, peer.parents_seen);
}

void Simulation::leave(std::size_t index) {
    if (options_.trace)
        std::printf("          client %u leaves\n", peers_[index]->name);
    const Peer& peer = *peers_[index];
    count(peer);
    if (second_)
        second_->disconnect(peer.connection);
    outcome_.limit_drops += peer.client.stats().limit_drops + peer.client.stats().references_dropped;
    if (!peer.limited && !peer.dirty && (peer.client.stats().limit_drops || peer.client.stats().references_dropped))
        failure_.report("client %u reached a limit", peer.name);
    if (!peer.closed || worlds_)
        network_.disconnect(peer.connection);
    std::vector<Entity> owned; // the verifier goes by ids, which are given again
    world_.each<OwnedBy>([&](Entity entity, const OwnedBy& owner) {
        if (owner.client == peer.id)
            owned.push_back(entity);
    });
    for (const Entity entity : owned)
        world_.remove<OwnedBy>(entity);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(index));
    rooms_.erase(rooms_.begin() + static_cast<std::ptrdiff_t>(index));
}

Peer* Simulation::any_joined() {
    if (peers_.empty())
        return nullptr;
    Peer& peer = *peers_[random_.below(static_cast<u32>(peers_.size()))];
    return peer.joined ? &peer : nullptr;
}

void Simulation::look(Peer& peer) {
    peer.has_view = true;
    peer.focus = {};
    peer.at[0] = random_.between(-plan_.spread, plan_.spread);
    peer.at[1] = random_.between(-plan_.spread, plan_.spread);
    server_.view(peer.id).look_at(peer.at[0], peer.at[1], {.radius = peer.radius});
    if (options_.trace)
        std::printf("          client %u looks at %.1f %.1f radius %.0f\n", peer.name, peer.at[0], peer.at[1], peer.radius);
}

void Simulation::view_action(Action action, Peer& peer) {
    View view = server_.view(peer.id);
    switch (action) {
    case Action::hide:
    case Action::show:
        for (u32 left = 1 + random_.below(plan_.batch_max); left > 0; --left)
            if (const Entity entity = actions_.any_entity()) {
                action == Action::hide ? view.hide(entity) : view.show(entity);
                peer.may_see.set(entity, action == Action::show);
                if (options_.trace)
                    std::printf("          client %u: %s slot %u\n", peer.name, to_string(action), entity.entity_idx);
            }
        break;
    case Action::look:
        look(peer);
        break;
    case Action::follow:
        if (const Entity entity = actions_.any_replicated(); entity && world_.has<Place>(entity)) {
            peer.has_view = true;
            peer.focus = entity;
            view.follow(entity, {.radius = peer.radius});
        }
        break;
    case Action::radius:
        peer.radius = random_.pick({50.0, 60.0, 90.0, 150.0});
        if (peer.has_view)
            look(peer);
        break;
    default:
        break;
    }
}

/// Who may see what: a rule of an entity, or the layers of a client.
void Simulation::random_rule() {
    const auto layers = [&] { return rules_.next() & rules_.next() & 0x8000'0000'0000'0007u; };
    if (!peers_.empty() && rules_.chance(0.3)) {
        Peer& peer = *peers_[rules_.below(static_cast<u32>(peers_.size()))];
        if (peer.joined)
            server_.view(peer.id).set_layers(peer.may_see.layers = layers());
        return;
    }
    const u32 slot = rules_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    if (!world_.alive(entity))
        return;
    if (rules_.chance(0.4))
        world_.remove<VisibleTo>(entity);
    else if (VisibleTo* rule = world_.mut<VisibleTo>(entity))
        rule->any_of = layers();
    else
        world_.add<VisibleTo>(entity, VisibleTo{layers() & layers(), layers(), layers() & layers()});
}

/// A client's list begins anew. One of what is shown names most of what there is, so that something happens to it.
void Simulation::random_listing() {
    if (peers_.empty())
        return;
    Peer& peer = *peers_[lists_.below(static_cast<u32>(peers_.size()))];
    if (!peer.joined)
        return;
    View view = server_.view(peer.id);
    const bool all = lists_.chance(0.4);
    peer.may_see.begin(!all);
    if (all)
        return view.show_all();
    view.hide_all();
    for (u32 slot = 0; slot < world_.entity_slots(); ++slot)
        if (const Entity entity = world_.entity_at(slot); world_.alive(entity) && lists_.chance(0.7)) {
            view.show(entity);
            peer.may_see.set(entity, true);
        }
}

void Simulation::random_lasting() {
    const u32 slot = lists_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    if (!world_.alive(entity))
        return;
    if (lists_.chance(0.2))
        world_.remove<Lasting>(entity);
    else if (!world_.has<Lasting>(entity))
        world_.add<Lasting>(entity, Lasting{.from_start = lists_.chance(0.3)});
}

/// How often changes of an entity are sent, to all or to one client.
void Simulation::random_priority() {
    const u32 slot = priorities_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    const float priority = priorities_.pick({1.0f, 0.5f, 0.25f, 0.05f});
    if (!world_.alive(entity))
        return;
    if (!peers_.empty() && priorities_.chance(0.4)) {
        Peer& peer = *peers_[priorities_.below(static_cast<u32>(peers_.size()))];
        if (!peer.joined)
            return;
        if (priorities_.chance(0.3))
            server_.view(peer.id).clear_priority(entity);
        else
            (void)server_.view(peer.id).set_priority(entity, priority);
        return;
    }
    if (priorities_.chance(0.3))
        world_.remove<UpdatePriority>(entity);
    else if (UpdatePriority* set = world_.mut<UpdatePriority>(entity))
        set->value = priority;
    else
        world_.add<UpdatePriority>(entity, UpdatePriority{priority});
}

/// Of a client that is here.
bool Simulation::is_ticket(Bytes data) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
        const Ticket ticket(peer->name);
        return std::equal(data.begin(), data.end(), ticket.bytes().begin(), ticket.bytes().end());
    });
}

/// A client is disconnected, once what it was sent has had time to arrive.
void Simulation::dismiss(Peer& peer) {
    server_.disconnect_after_flush(peer.id);
    if (options_.trace)
        std::printf("          client %u is dismissed\n", peer.name);
    peer.dismissed = true;
    peer.dismissed_at = server_.current_tick();
    outcome_.tally.add(Happening::client_dismissed);
}

Verdict Simulation::on_hello(void* context, ClientId id, const ClientHello& hello) {
    Simulation& self = *static_cast<Simulation*>(context);
    const bool dirty = std::any_of(self.peers_.begin(), self.peers_.end(), [](const auto& peer) { return peer->dirty; });
    const bool known = self.plan_.says_ticket ? self.is_ticket(hello.data) : hello.data.empty();
    if (!dirty && ((!hello.same_protocol && !self.plan_.mixed) || !known))
        self.failure_.report("a hello that no client says");
    self.outcome_.tally.add(Happening::ticket_read, self.plan_.says_ticket);
    if (self.healing_)
        return Verdict::yes;
    const Verdict verdict = self.verdicts_.pick({Verdict::yes, Verdict::later, Verdict::later, Verdict::later, Verdict::no});
    if (verdict == Verdict::no)
        self.turned_away_.push_back(id);
    return verdict;
}

/// The multiplexer has numbers of its own.
void Simulation::find_seats() {
    for (const auto& peer : peers_) {
        if (worlds_) {
            peer->id = worlds_->mux.client(OneWorld::number, peer->connection);
            peer->closed |= peer->joined && peer->id == ServerMultiplexer::nobody; // damage can say that it leaves
        }
        peer->cut |= std::find(turned_away_.begin(), turned_away_.end(), peer->id) != turned_away_.end();
        peer->seated = !peer->cut && peer->id != ServerMultiplexer::nobody && peer->id < plan_.server.clients_max;
    }
    turned_away_.clear();
}

/// About clients that wait.
void Simulation::decide() {
    for (const auto& peer : peers_)
        if (server_.waiting(peer->id) && (healing_ || verdicts_.chance(0.2))) {
            const bool refused = !healing_ && verdicts_.chance(0.1);
            if ((refused ? server_.refuse(peer->id) : server_.accept(peer->id)) != Error::none)
                failure_.report("client %u does not take a verdict", peer->name);
            peer->cut |= refused;
            peer->seated &= !refused;
        }
}

/// What only some clients see: it comes, changes and goes.
void Simulation::random_private(Entity entity) {
    if (entity == server_.resource_entity())
        return;
    const int value = scopes_.below(90);
    const auto set = [&](auto component, auto change) {
        using T = decltype(component);
        if (scopes_.chance(0.15))
            world_.remove<T>(entity);
        else if (T* there = world_.mut<T>(entity))
            change(*there);
        else
            world_.add<T>(entity, component);
    };
    switch (scopes_.below(4)) {
    case 0:
        return set(Purse{value, ++purses_}, [&](Purse& purse) { purse = {value, ++purses_}; });
    case 1:
        return set(Tactics{value}, [&](Tactics& tactics) { tactics.plan = i64(value) << scopes_.below(50); });
    case 2:
        return set(Rumour{static_cast<float>(value)}, [&](Rumour& rumour) { rumour.heard = static_cast<float>(value); });
    default:
        return set(Diary{1}, [&](Diary& diary) { diary.page += static_cast<u32>(value); });
    }
}

/// The server or clients make entities with signatures: one alone, or both, in any order.
void Simulation::random_signature() {
    const bool server = signatures_.chance(0.7);
    const SpawnSignature fresh = SpawnSignature::of(1, signatures_.below(5));
    const SpawnSignature signature = server ? actions_.sign(signatures_) : fresh;
    for (auto& peer : peers_)
        if (signatures_.chance(0.6))
            peer->make_ahead(signatures_.chance(0.1) ? fresh : signature, signatures_);
        else if (signatures_.chance(0.1))
            peer->end_ahead(signatures_);
}

/// Who sees which components: owners, groups and their members, scopes by layers.
void Simulation::random_scope() {
    const auto any_peer = [&]() -> Peer* {
        Peer* const peer = peers_.empty() ? nullptr : peers_[scopes_.below(static_cast<u32>(peers_.size()))].get();
        return peer && peer->joined && server_.joined(peer->id) ? peer : nullptr; // damage can say that it leaves
    };
    const u32 slot = scopes_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    if (!world_.alive(entity) || entity == server_.resource_entity())
        return; // all clients are asked for all resources
    const auto set = [&](auto component) {
        using T = decltype(component);
        if (T* there = world_.mut<T>(entity))
            *there = component;
        else
            world_.add<T>(entity, component);
    };
    switch (scopes_.below(12)) {
    case 0:
    case 1:
        if (const Peer* peer = any_peer())
            return set(OwnedBy{peer->id});
        return;
    case 2:
        world_.remove<OwnedBy>(entity);
        return;
    case 3:
        if (!groups_.empty())
            return set(SharedWith{groups_[scopes_.below(static_cast<u32>(groups_.size()))]});
        return;
    case 4: {
        const Peer* const peer = any_peer();
        if (groups_.size() < 3)
            groups_.push_back(server_.make_group());
        const GroupId group = groups_[scopes_.below(static_cast<u32>(groups_.size()))];
        if (peer && scopes_.chance(0.6))
            server_.add_to_group(group, peer->id);
        else if (peer)
            server_.remove_from_group(group, peer->id);
        return;
    }
    case 5:
        world_.remove<ScopedTo>(entity);
        return;
    case 6: {
        ScopedTo scoped;
        const Scope choices[] = {Scope::of<Vitals>(),       Scope::of<Speed, Facing>(),         Scope::of<Note, Link>(),
                                 Scope::of<Place>(),        Scope::all_except<Place, Vitals>(), Scope::all_except<Note>(),
                                 Scope::of<Purse, Rumour>()};
        const u32 count = 1 + (scopes_.chance(0.05) ? scopes_.below(ScopedTo::scopes_max) : scopes_.below(3));
        for (u32 left = count; left > 0; --left)
            scoped.also(choices[scopes_.below(7)], {.any_of = scopes_.next() & 0x8000'0000'0000'0007u},
                        static_cast<Lifetime>(lifetimes_.below(3)));
        return set(scoped);
    }
    case 7:
        if (Peer* peer = any_peer())
            server_.view(peer->id).set_layers(peer->may_see.layers = scopes_.next() & scopes_.next() & 0x8000'0000'0000'0007u);
        return;
    default:
        for (u32 left = 1 + scopes_.below(plan_.batch_max); left > 0; --left)
            if (const Entity other = world_.entity_at(scopes_.below(world_.entity_slots())); world_.alive(other))
                random_private(other);
    }
}

void Simulation::random_action() {
    double at = random_.unit() * plan_.weight_sum;
    u32 a = 0;
    while (a + 1 < action_count && (at -= plan_.weights[a]) >= 0)
        ++a;
    const Action action = static_cast<Action>(a);
    if (plan_.weights[a] == 0 || actions_.perform(action))
        return;
    if (action == Action::join)
        return join(true);
    if (peers_.empty())
        return;
    const std::size_t index = random_.below(static_cast<u32>(peers_.size()));
    Peer& peer = *peers_[index];
    if (action == Action::leave)
        return leave(index);
    if (action == Action::kick) {
        server_.disconnect(peer.id);
        return leave(index);
    }
    if (action == Action::relink) {
        const Blackout blackout{now_, now_ + static_cast<TimeUs>(random_.range(200'000, 1'500'000))};
        for (const Direction direction : {Direction::down, Direction::up}) {
            LinkConfig link = plan_.faulty_link(random_, peer.dirty);
            if (plan_.blackouts && random_.chance(0.7))
                link.blackouts = {&blackout, 1};
            network_.set_link(peer.connection, direction, link);
        }
        if (options_.trace)
            std::printf("          client %u has other links\n", peer.name);
        return;
    }
    if (peer.joined)
        view_action(action, peer);
}

void Simulation::note_joins() {
    for (auto& peer : peers_)
        if (!peer->joined && server_.joined(peer->id)) {
            peer->joined = true;
            peer->joined_at = server_.current_tick() + 1;
            if (random_.chance(0.9))
                look(*peer);
        }
}

// ---------------------------------------------------------------------------------------------------- ticks
void Simulation::tick(bool faults) {
    now_ += 50'000;
    if (faults) {
        messages_.act(true); // before all that may happen to what they name, and to clients
        for (u32 left = random_.below(plan_.actions_a_tick + 1); left > 0; --left)
            random_action();
        actions_.motion(server_.current_tick());
        if (rules_.chance(plan_.rule_chance))
            random_rule();
        for (u32 i = 0; i < 4; ++i)
            if (filters_.chance(plan_.filter_chance) && !filters_.perform())
                failure_.report("a value for a filter is refused");
        for (u32 i = 0; i < 8; ++i)
            if (ruled_.chance(plan_.ruled_chance))
                ruled_.perform();
        for (u32 i = 0; i < 4; ++i)
            if (bundles_.chance(plan_.bundle_chance))
                bundles_.perform();
        for (u32 i = 0; i < 2; ++i)
            if (family_.chance(plan_.family_chance))
                family_.perform();
        for (u32 i = 0; i < 8; ++i)
            if (diffs_.chance(plan_.diff_chance))
                diffs_.perform();
        if (diffs_.mistakes())
            failure_.report("a diff was refused, or another one not");
        if (lists_.chance(plan_.listing_chance))
            random_listing();
        if (lists_.chance(plan_.lasting_chance))
            random_lasting();
        actions_.pause();
        if (priorities_.chance(plan_.priority_chance))
            random_priority();
        if (bonds_.chance(plan_.bond_chance))
            actions_.bond(bonds_);
        if (scopes_.chance(plan_.scope_chance))
            random_scope();
        if (signatures_.chance(plan_.signature_chance))
            random_signature();
        if (badges_.chance(plan_.badge_chance)) {
            actions_.pin(badges_);
            outcome_.tally.add(Happening::badge_replaced);
        }
        if (!peers_.empty() && dismissals_.chance(plan_.dismiss_chance))
            if (Peer& peer = *peers_[dismissals_.below(static_cast<u32>(peers_.size()))]; peer.joined && !peer.dismissed)
                dismiss(peer);
        for (auto& peer : peers_)
            if (ends_.chance(plan_.client_end_chance) && !peer->dirty)
                outcome_.tally.add(Happening::client_ended, bool(peer->end_shown(ends_)));
    }
    server_.receive(now_);
    if (second_) {
        const TickReport& second = second_->tick(now_);
        outcome_.messages += second.messages;
        outcome_.unapplied += second.unapplied_sections;
    }
    find_seats();
    decide();
    note_joins();
    if (plan_.userdata) {
        const Userdata userdata(server_.current_tick() + 1);
        if (server_.set_userdata(userdata.bytes()) != Error::none)
            failure_.report("userdata are refused");
    }
    messages_.dispatch(faults);
    messages_.before_tick();
    const TickReport report = server_.tick(now_);
    if (options_.trace)
        std::printf("tick %3u: %u entities %u chunks %u dirty, %llu messages %llu bytes, %llu lost %llu unapplied, limits %x\n",
                    report.tick, report.entities, report.chunks, report.chunks_dirty, static_cast<unsigned long long>(report.messages),
                    static_cast<unsigned long long>(report.bytes), static_cast<unsigned long long>(report.lost_messages),
                    static_cast<unsigned long long>(report.unapplied_sections), report.limits);
    const auto& workers = server_.state().workers; // limit_clusters of theirs: larger than any message
    truth_.record(world_, server_, std::any_of(workers.begin(), workers.end(), [](const WorkerState& w) {
                      return (w.counts.limits & limit_clusters) != 0;
                  }));
    for (auto& peer : peers_)
        if (peer->joined)
            peer->record_visible(server_.current_tick(), server_);
    verifier_.left_behind = truth_.left_behind();
    if (other_verifier_)
        other_verifier_->left_behind = truth_.left_behind();
    check_report(report);
    const auto closed = [&](const auto& peer) { return peer->joined && !server_.joined(peer->id); };
    check_counts(server_, report, std::any_of(peers_.begin(), peers_.end(), closed), failure_);
    check_why(server_, report, world_, peers_, failure_);
    component_counts_.check(report);
    check_promises();
    check_under_way();
    messages_.after_tick(report);
    for (std::size_t i = peers_.size(); i-- > 0;)
        if (peers_[i]->joined && !server_.joined(peers_[i]->id))
            closed_by_server(i);
    for (auto& peer : peers_) {
        if (peer.get() != frozen_)
            receive(*peer);
    }
    for (std::size_t i = peers_.size(); i-- > 0;)
        if (peers_[i]->closed) {
            const bool turned_away = plan_.asks_host && !peers_[i]->joined; // perhaps before the reason could arrive
            if (!peers_[i]->dirty && !peers_[i]->refused && !turned_away && peers_[i]->id < plan_.server.clients_max)
                failure_.report("client %u was closed by the server", peers_[i]->name);
            leave(i);
        }
}

/// In this tick: it was dismissed, or what waits for it has become too much. It may hear of it later.
void Simulation::closed_by_server(std::size_t index) {
    const Peer& peer = *peers_[index];
    const Tick stayed = server_.current_tick() - peer.dismissed_at;
    const bool overflowed = plan_.server.typed_backlog_bytes_max < 100'000;
    if (!peer.dirty && !overflowed && (!peer.dismissed || stayed != Server::closing_ticks + 1))
        failure_.report("client %u was closed by the server, %u ticks after its dismissal", peer.name, peer.dismissed ? stayed : 0);
    leave(index);
}

void Simulation::receive(Peer& peer) {
    const Error error = peer.client.receive(now_);
    const ClientStats& stats = peer.client.stats();
    if (second_)
        second_->receive(peer.connection, now_);
    if (peer.dirty) { // whatever it took: within its limits, and the world is what the client says it is
        for (const u64 malformed : stats.malformed)
            outcome_.malformed += malformed != 0;
        const u64 shown = stats.spawns - stats.despawns;
        if (peer.world.entity_count() != shown + peer.ahead() || shown > plan_.client.entities_max)
            failure_.report("client %u: its world does not hold what it counts", peer.name);
    } else if ((error == Error::limit_reached && !peer.client.joined() && plan_.server.clients_max < 100) ||
               (error == Error::unauthorized && plan_.asks_host)) {
        peer.refused = true;
    } else if (error != Error::none && !(error == Error::limit_reached && peer.limited)) {
        failure_.report("client %u: receive returned %s", peer.name, throng::to_string(error));
    }
    if (peer.limited && (peer.world.entity_count() - peer.ahead() > plan_.limited.entities_max ||
                         peer.client.ring_bytes() > std::max<std::size_t>(plan_.limited.memory_bytes_max, 1)))
        failure_.report("client %u passed a limit: %u entities, %zu bytes", peer.name, peer.world.entity_count(), peer.client.ring_bytes());
    if (options_.trace)
        std::printf("          client %u: %llu applied, %llu duplicates, %llu late, baseline %llu tombstone %llu overtaken %llu "
                    "together %llu\n",
                    peer.name, static_cast<unsigned long long>(stats.applied), static_cast<unsigned long long>(stats.duplicates),
                    static_cast<unsigned long long>(stats.late_drops), static_cast<unsigned long long>(stats.unapplied_baseline),
                    static_cast<unsigned long long>(stats.unapplied_tombstone), static_cast<unsigned long long>(stats.unapplied_overtaken),
                    static_cast<unsigned long long>(stats.unapplied_together));
    if (const Error sent = peer.client.send(now_); sent != Error::none && sent != Error::limit_reached)
        failure_.report("client %u: send returned %s", peer.name, throng::to_string(sent));
}

void Simulation::check_report(const TickReport& report) {
    outcome_.messages += report.messages;
    outcome_.unapplied += report.unapplied_sections;
    outcome_.lost += report.lost_messages;
    outcome_.hashes_equal += report.hashes_equal;
    if (report.encodes != report.keys)
        failure_.report("%llu encodes for %llu keys", static_cast<unsigned long long>(report.encodes),
                        static_cast<unsigned long long>(report.keys));
    const bool dirty = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->dirty; });
    const bool limited = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->limited; });
    if (report.hashes_different && !dirty && !limited)
        failure_.report("a client's state hash differs at a settled tick");
    if (report.malformed_messages && !dirty)
        failure_.report("the server received a malformed message");
    // Limits show where they were made small, and only there.
    u32 possible = limit_backend_refused | limit_records | limit_opaque | limit_position;
    if (plan_.server.budget_bytes)
        possible |= limit_budget;
    if (plan_.server.chunks_max < 1000)
        possible |= limit_chunks;
    if (plan_.server.clients_max < 100)
        possible |= limit_clients;
    if (plan_.server.lasting_max < 100)
        possible |= limit_lasting;
    if (plan_.bond_chance > 0)
        possible |= limit_clusters;
    if (plan_.server.typed_backlog_bytes_max < 100'000)
        possible |= limit_typed_backlog;
    if (plan_.server.typed_receive_max < 1000)
        possible |= limit_typed_receive;
    if (report.limits & ~possible)
        failure_.report("limits %x were reached", report.limits);
    if ((report.limits & limit_backend_refused) && plan_.network.unreliable.queue_messages_max > 64 &&
        plan_.network.unordered.queue_messages_max > 64 && plan_.network.ordered.queue_messages_max > 64)
        failure_.report("the backend refused although its queues are large");
    if ((report.limits & limit_records) && plan_.server.records_max > 1024 && plan_.server.message_bytes_max > 200)
        failure_.report("records_max was reached");
    dirty_chunks_ = report.chunks_dirty;
}

void Simulation::check_promises() {
    for (auto& peer : peers_) {
        if (!peer->joined || !peer->has_view || !server_.joined(peer->id))
            continue;
        if (peer->focus) {
            const Place* place = world_.get<Place>(peer->focus);
            if (!place || !server_.net_id(peer->focus) || !world_.has<Replicated>(peer->focus))
                continue; // the last place is kept
            peer->at[0] = std::clamp(static_cast<double>(place->x), -map_edge, map_edge);
            peer->at[1] = std::clamp(static_cast<double>(place->z), -map_edge, map_edge);
        }
        if (const Difference broken = verifier_.check_promise(peer->id, peer->at[0], peer->at[1], peer->radius))
            failure_.report("promise: %s", broken.text.c_str());
    }
}

/// R6: what a client has not acknowledged is unsent, waits for its tick, or is in a message whose ack may still come. Else nobody would
/// ever send it again while other lanes of its chunk keep messages in flight.
void Simulation::check_under_way() {
    ServerState& state = server_.state();
    for (const ClientState& client : state.clients) {
        if (!client.joined)
            continue;
        std::map<u32, u64> carried;
        for (u32 message = client.oldest_message; message != client.next_message; ++message) {
            const MessageRecord& record = client.records[message & (client.records.size() - 1)];
            for (u32 i = 0; record.state == record_in_flight && i < record.count; ++i) {
                const SectionRecord& section = client.sections[(record.first + i) & (client.sections.size() - 1)];
                carried[section.chunk] |= section.lanes;
            }
        }
        for (const ClientChunk& view : client.chunks) {
            const Chunk& chunk = state.mirror.chunk(view.chunk);
            const u64 open = unacked(client, view, chunk, state.tick) & ~view.pending & ~waiting_lanes(chunk); // those have a tick
            if (const u64 left = open & ~carried[view.chunk])
                failure_.report("client %u: lanes %llx of chunk %u are unacknowledged, but neither unsent nor under way",
                                static_cast<u32>(&client - state.clients.data()), static_cast<unsigned long long>(left), view.chunk);
        }
    }
}

// ---------------------------------------------------------------------------------------------------- healing
namespace {
/// What is unsent or unacknowledged, for messages.
std::string unsettled(ServerState& state, ClientId id) {
    if (id >= state.clients.size())
        return "for it is not in the world";
    for (const ClientChunk& view : state.clients[id].chunks) {
        const u64 open = unacked(state.clients[id], view, state.mirror.chunk(view.chunk), state.tick);
        if (view.known == view.visible && !view.limbo && !open)
            continue;
        char line[300];
        std::snprintf(line, sizeof line, "chunk %u visible %llx known %llx limbo %llx pending %llx unacked %llx, B %u in flight %u",
                      view.chunk, static_cast<unsigned long long>(view.visible), static_cast<unsigned long long>(view.known),
                      static_cast<unsigned long long>(view.limbo), static_cast<unsigned long long>(view.pending),
                      static_cast<unsigned long long>(open), view.baseline, view.in_flight);
        return line;
    }
    return "although nothing is unacknowledged";
}
} // namespace

bool Simulation::healed() {
    for (auto& peer : peers_) {
        if (!server_.settled(peer->id)) {
            last_difference_ = {Kind::stale,
                                "client " + std::to_string(peer->name) + " does not settle: " + unsettled(server_.state(), peer->id)};
            return false;
        }
        throng_verify::Verifier& verifier = peer->other_build ? *other_verifier_ : verifier_;
        last_difference_ = verifier.check(peer->id, peer->world, peer->client, still_since_);
        if (last_difference_)
            return false;
    }
    last_difference_ = second_ ? second_->difference() : Difference{};
    return !last_difference_;
}

/// Late messages from before the healing still arrive, or are still waited for, so that tables may grow to their limits.
bool Simulation::heard() {
    const bool second = second_ && second_->heard();
    return second || std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
               const ClientState& client = server_.state().clients[peer->id];
               return peer->news_heard || client.next_message - client.oldest_message > 8;
           });
}

/// What clients have destroyed and are to see: it ends, or is hidden for so long that they hear of it, and shown again.
void Simulation::settle_ended() {
    std::vector<std::pair<Peer*, Entity>> again;
    for (auto& peer : peers_)
        for (const auto& [net, since] : peer->ended())
            for (u32 i = 0; i < world_.entity_slots(); ++i) {
                const Entity entity = world_.entity_at(i);
                const Slot* const slot = server_.state().slot_of(entity); // one without a lane may get one again
                if (slot && slot->net_id == net)
                    again.push_back({peer.get(), entity});
            }
    const auto set = [&](bool shown) {
        for (const auto& [peer, entity] : again) {
            View view = server_.view(peer->id);
            shown ? view.show(entity) : view.hide(entity);
            peer->may_see.set(entity, shown);
        }
    };
    if (again.empty())
        return;
    if (!plan_.reshows_ended) {
        for (const auto& [peer, entity] : again)
            if (world_.alive(entity)) // one is often destroyed by several
                actions_.end_for_good(entity);
        return;
    }
    for (const auto& [peer, entity] : again)
        if (!world_.has<Replicated>(entity))
            world_.add<Replicated>(entity); // a paused one would stay
    std::erase_if(again, [&](const auto& one) { return !one.first->may_see.shows(one.second) || !server_.joined(one.first->id); });
    set(false);
    for (u32 left = 150; left > 0 && !failure_.happened(); --left) {
        tick(false);
        if (std::all_of(again.begin(), again.end(), [&](const auto& one) { return server_.settled(one.first->id); }))
            break;
    }
    set(true);
}

void Simulation::heal() {
    healing_ = true;
    for (std::size_t i = peers_.size(); i-- > 0;)
        if (peers_[i]->dirty || peers_[i]->limited || peers_[i]->dismissed || peers_[i]->id >= plan_.server.clients_max)
            leave(i);
    for (auto& peer : peers_) {
        peer->end_all_ahead(); // the verifier knows what the server has
        network_.set_link(peer->connection, Direction::down, {});
        network_.set_link(peer->connection, Direction::up, {});
    }
    server_.receive(now_);                                                                          // slots of those that left are free
    find_seats();
    note_joins();
    while (peers_.size() < std::min(std::max(1u, plan_.clients_max - 1), plan_.server.clients_max)) // some come late
        join(false);
    if (second_)
        second_->heal();
    bool resumed = false;
    for (u32 slot = 0; slot < world_.entity_slots(); ++slot)
        if (const Entity entity = world_.entity_at(slot);
            !plan_.heals_paused && server_.state().slot_of(entity) && !world_.has<Replicated>(entity)) {
            world_.add<Replicated>(entity);
            resumed = true;
        }
    for (u32 i = 0; resumed && i < 4; ++i) // one that is Lasting again is shown first, and hidden then
        tick(false);
    settle_ended();
    still_since_ = server_.current_tick() + 1;
    for (auto& peer : peers_)
        if (options_.sabotage == Kind::stale && peer->joined && !peer->may_see.listed_only && !frozen_)
            frozen_ = peer.get();
    if (frozen_) { // changes that it never hears of
        world_.each_mut<Vitals>([](Vitals& vitals) { ++vitals.hp; });
        world_.spawn(Vitals{}, Replicated{}); // without a place or a rule: visible to all
        tick(false);
        still_since_ = server_.current_tick();
    }
    u32 quiet = 0;
    for (u32 healing = 1; healing <= options_.heal_ticks && !failure_.happened(); ++healing) {
        const u64 messages = outcome_.messages, unapplied = outcome_.unapplied;
        const u64 allocations = allocations_.load();
        const bool was_quiet = quiet > 0;
        for (auto& peer : peers_)
            peer->news_heard = false;
        const bool letters = plan_.letter_chance > 0 && healing <= 8; // they may keep heartbeats out of a small queue
        if (letters)
            messages_.act(false);
        tick(false);
        if (frozen_) {
            if (healing < options_.heal_ticks / 2)
                continue;
            if (const Difference found = verifier_.check(frozen_->id, frozen_->world, frozen_->client, still_since_)) // it saw any of it
                failure_.report("%s: %s", to_string(found.kind), found.text.c_str());
            break;
        }
        const bool settled = healed() && !letters;
        // A message from before may still come late and not apply; then the server sends its lanes once more (R5).
        if (was_quiet && outcome_.unapplied != unapplied && (settled || last_difference_.kind == Kind::stale)) {
            quiet = 0;
            continue;
        }
        if (settled) {
            ++quiet;
            // Idle is free: the first tick of settled clients may still have had something to say.
            if (was_quiet && outcome_.messages != messages)
                failure_.report("state is sent to settled clients of a still world");
            // Before that, a chunk that has waited for a viewer may get one.
            if (was_quiet && dirty_chunks_)
                failure_.report("a still world has dirty chunks");
            if (quiet > 16 && allocations_.load() != allocations && !heard())
                failure_.report("an idle tick took memory");
            if (quiet == 24) {
                outcome_.heal_ticks = healing - quiet + 1;
                break;
            }
        } else if (was_quiet) {
            failure_.report("a settled client differs again: %s", last_difference_.text.c_str());
        }
    }
    if (quiet < 24 && !failure_.happened() && !frozen_) {
        std::string text = std::string(to_string(last_difference_.kind)) + ": " + last_difference_.text;
        failure_.report("not healed after %u ticks: %s", options_.heal_ticks, text.c_str());
    }
    for (u32 left = 100; left > 0 && !failure_.happened() && !frozen_ && !messages_.complete(false); --left)
        tick(false);
    if (!failure_.happened() && !frozen_)
        (void)messages_.complete(true);
    for (auto& peer : peers_) {
        const ClientStats& stats = peer->client.stats();
        if (stats.limit_drops || stats.references_dropped)
            failure_.report("client %u reached a limit", peer->name);
        count(*peer);
    }
    outcome_.checks += second_ ? second_->checks() : 0;
    if (!failure_.happened() && plan_.scenes)
        check_worlds();
    if (!failure_.happened() && options_.sabotage == Kind::none && plan_.dismiss_chance > 0)
        dismiss_last();
    if (!failure_.happened() && options_.sabotage != Kind::none && !frozen_) {
        for (auto& peer : peers_)
            if (throng_verify::sabotage(options_.sabotage, own_.protocol, peer->world, peer->client)) {
                (void)healed();
                failure_.report("%s: %s", to_string(last_difference_.kind), last_difference_.text.c_str());
                return;
            }
    }
}

/// The server's world and what one of the clients shows, as scenes.
void Simulation::check_worlds() {
    Random random(plan_.seed ^ 0x5ce8e);
    check_scenes(world_, own_.protocol, plan_.server_build, {}, "the server", random, failure_);
    if (peers_.empty())
        return;
    const Peer& peer = *peers_[random.below(static_cast<u32>(peers_.size()))];
    const std::vector<Entity> shown = shown_entities(peer);
    check_scenes(peer.world, peer.protocol, peer.other_build ? plan_.other_build : plan_.server_build, shown,
                 "client " + std::to_string(peer.name), random, failure_);
}

/// Over good links a client has all that was sent to it before it was dismissed, and is closed when that is over.
void Simulation::dismiss_last() {
    if (peers_.empty())
        return;
    messages_.act(false);
    Peer& peer = *peers_.front();
    const u32 name = peer.name;
    dismiss(peer);
    messages_.act(false); // not for it
    for (u32 i = 0; i < Server::closing_ticks && !failure_.happened(); ++i)
        tick(false);
    if (failure_.happened() || !messages_.complete(true))
        return;
    tick(false);
    if (std::any_of(peers_.begin(), peers_.end(), [&](const auto& there) { return there->name == name; }))
        failure_.report("client %u was dismissed, and is not closed", name);
}

Outcome Simulation::run() {
    if (server_.valid() != Error::none)
        failure_.report("%s", server_.problem());
    if (options_.trace)
        std::printf("cells %.0f, history %u, records %u, budget %u, message %u, loss timeout %u, compression %d, client ring %u, late "
                    "%u, queue %u\n",
                    plan_.server.cell_size, plan_.server.history_ticks, plan_.server.records_max, plan_.server.budget_bytes,
                    plan_.server.message_bytes_max, plan_.server.loss_timeout_ticks, static_cast<int>(plan_.server.compression),
                    plan_.client.ring_versions_max, plan_.client.max_late_ticks, plan_.network.unreliable.queue_messages_max);
    actions_.populate();
    join(true);
    for (u32 i = 0; i < options_.fault_ticks && !failure_.happened(); ++i)
        tick(true);
    if (!failure_.happened())
        heal();
    outcome_.compared = verifier_.fields_compared() + (other_verifier_ ? other_verifier_->fields_compared() : 0);
    if (failure_.happened())
        outcome_.failure = "tick " + std::to_string(server_.current_tick()) + ": " + failure_.text;
    return outcome_;
}

} // namespace throng_sim
