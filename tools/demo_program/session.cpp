#include "tools/demo_program/session.hpp"
#include "tools/demo_program/text.hpp"
#include <algorithm>
#include <cstdio>
#include <ctime>

using namespace throng;

namespace demo {
namespace {

u64 read_clock(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
}

constexpr u32 hash_every_ticks = 10;
constexpr u64 promise_looks_max = 20'000'000; // about a second

ProtocolConfig protocol_config() {
    ProtocolConfig config;
    config.tick_hz = tick_hz;
    config.dictionary = label_dictionary();
    return config;
}

LinkConfig link_of(const Options& options) {
    LinkConfig link;
    link.loss_percent = options.loss_percent;
    link.delay_us = static_cast<u32>(options.rtt_ms * 500);
    link.jitter_us = static_cast<u32>(options.jitter_ms * 1000);
    return link;
}

} // namespace

u64 thread_cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
u64 wall_ns() { return read_clock(CLOCK_MONOTONIC); }

Sums& Sums::operator+=(const Sums& other) {
    ticks += other.ticks;
    for (u32 s = 0; s < stage_count; ++s) {
        stages[s].cpu_ns += other.stages[s].cpu_ns;
        stages[s].cpu_max_ns += other.stages[s].cpu_max_ns;
        stages[s].wall_ns += other.stages[s].wall_ns;
    }
    cpu_ns += other.cpu_ns, wall_ns += other.wall_ns, world_wall_ns += other.world_wall_ns;
    clients_cpu_ns += other.clients_cpu_ns, clients_wall_ns += other.clients_wall_ns;
    pairs += other.pairs, sent_lanes += other.sent_lanes, keys += other.keys, encodes += other.encodes;
    bytes += other.bytes, payload_bytes += other.payload_bytes, shared_bytes += other.shared_bytes, zstd_bytes += other.zstd_bytes;
    baseline_age += other.baseline_age, delta_sections += other.delta_sections;
    unseen_honks += other.unseen_honks;
    hashes_equal += other.hashes_equal, hashes_different += other.hashes_different;
    client_bytes_max = std::max(client_bytes_max, other.client_bytes_max);
    limits |= other.limits;
    return *this;
}

static Sums sums_of(const TickReport& report) {
    Sums sums;
    sums.ticks = 1;
    for (u32 s = 0; s < stage_count; ++s) {
        sums.stages[s] = report.stages[s];
        sums.cpu_ns += report.stages[s].cpu_ns;
        sums.wall_ns += report.stages[s].wall_ns;
    }
    sums.pairs = report.pairs, sums.sent_lanes = report.sent_lanes, sums.keys = report.keys, sums.encodes = report.encodes;
    sums.bytes = report.bytes + report.heartbeat_bytes;
    sums.payload_bytes = report.payload_bytes, sums.shared_bytes = report.shared_bytes, sums.zstd_bytes = report.zstd_bytes;
    sums.baseline_age = report.baseline_age_sum, sums.delta_sections = report.delta_sections;
    sums.hashes_equal = report.hashes_equal, sums.hashes_different = report.hashes_different;
    sums.client_bytes_max = report.client_bytes_max;
    sums.limits = report.limits;
    return sums;
}

struct Session::Peer {
    ClientId id = 0;
    std::unique_ptr<World> world;
    std::unique_ptr<Client> client;
    Entity followed = {};
    NetId own_vehicle;           // what its game has been told
    u64 hash_reports_before = 0; // the drain
    u64 honks_sent = 0, honks_heard = 0;

    void handle(const Honked&, const Sender&) { ++honks_heard; }
};

/// What clients are dealt out to, and what a worker that has the group uses.
struct Session::Group {
    explicit Group(const Protocol& protocol) : scratch(protocol) {}
    ClientScratch scratch;
    SeatCount seats;
    std::string torn; // the first client that showed a vehicle with the wrong number of passengers
    u64 cpu_ns = 0;
};

/// The server's end of the horns.
struct Session::Horns {
    Server& server;
    u64 heard = 0;

    void handle(const Honk& honk, const Sender&) {
        ++heard;
        (void)server.send_message(To::observers(honk.vehicle), Honked{honk.vehicle});
    }
};

Session::Session(const Options& options, const scenarios::Trace& trace, Executor& executor)
    : options_(options), executor_(executor), traffic_(trace, options.entities, options.seed, tick_hz), passengers_(traffic_, options.seed),
      protocol_(protocol_config()) {}

Session::~Session() = default;

void Session::populate() {
    traffic_.populate(world_, executor_);
    passengers_.step(world_);
    entities_ = traffic_.entity_count();
}

std::string Session::open() {
    add_components(protocol_);
    add_passengers(protocol_);
    if (protocol_.finish() != Error::none)
        return protocol_.problem();
    LoopbackConfig network_config;
    network_config.seed = options_.seed;
    network_config.client_max = options_.clients;
    network_ = std::make_unique<LoopbackNetwork>(network_config);
    ServerConfig config;
    config.executor = &executor_;
    config.radius_min = options_.radius_m;
    config.cell_size = std::min(64.0, options_.radius_m * 64 / 60); // larger cells than that could not follow the radius
    config.clients_max = std::max(options_.clients, 1u);
    config.hash_ticks = hash_every_ticks;
    config.thread_cpu_ns = thread_cpu_ns;
    config.wall_ns = wall_ns;
    server_ = std::make_unique<Server>(world_, protocol_, network_->server(), config);
    if (server_->valid() != Error::none)
        return server_->problem();

    horns_ = std::make_unique<Horns>(Horns{*server_});
    (void)server_->set_handlers(handlers<Honk>(*horns_));

    const u32 groups = std::min(options_.clients, executor_.worker_count() * 4);
    for (u32 g = 0; g < groups; ++g)
        groups_.push_back(std::make_unique<Group>(protocol_));
    connect(options_.clients - (options_.clients > 1 ? std::max(1u, options_.clients / late_share) : 0));
    return {};
}

void Session::connect(u32 count) {
    const LinkConfig link = link_of(options_);
    while (peers_.size() < count) {
        auto peer = std::make_unique<Peer>();
        peer->id = network_->connect(link);
        WorldOptions small;
        small.block_rows = 64;
        peer->world = std::make_unique<World>(small);
        ClientConfig config;
        config.scratch = &groups_[peers_.size() % groups_.size()]->scratch;
        peer->client = std::make_unique<Client>(*peer->world, protocol_, network_->client(peer->id), config);
        (void)peer->client->set_handlers(handlers<Honked>(*peer));
        peers_.push_back(std::move(peer));
    }
}

/// Keeps the view on the vehicle; where it has left, the view stays until another one takes its place.
void Session::aim(Peer& peer) {
    if (!server_->joined(peer.id))
        return;
    const Entity entity = traffic_.followed(peer.id, options_.clients);
    if (!entity || entity == peer.followed)
        return;
    server_->view(peer.id).follow(entity, {options_.radius_m});
    if (const OwnedBy* owned = world_.get<OwnedBy>(peer.followed); owned && owned->client == peer.id) {
        world_.remove<OwnedBy>(peer.followed);
        world_.remove<Purse>(peer.followed);
    }
    if (!world_.has<OwnedBy>(entity)) { // another client may follow it, too
        world_.add<OwnedBy>(entity, OwnedBy{peer.id});
        world_.add<Purse>(entity);
    }
    peer.followed = entity;
}

/// Once in two seconds, at another tick than its neighbours, a client that knows its vehicle sounds the horn at the one ahead.
void Session::honk(Peer& peer) const {
    constexpr u32 period_ticks = 2 * tick_hz;
    if ((totals_.ticks + peer.id) % period_ticks != 0)
        return;
    const Follows* const follows = peer.world->get<Follows>(peer.client->entity(peer.own_vehicle));
    if (follows && follows->leader && peer.client->send_message(Honk{follows->leader}) == Error::none)
        ++peer.honks_sent;
}

/// Also looks at one client of each group for torn clusters.
void Session::run_clients(bool moving) {
    const u32 groups = static_cast<u32>(groups_.size());
    for_ranges(executor_, groups, 1, [&](u32 begin, u32 end, u32) {
        for (u32 group = begin; group < end; ++group) {
            const u64 start = thread_cpu_ns();
            for (u32 i = group; i < peers_.size(); i += groups) {
                if (i == cut_off_)
                    continue;
                // Errors are counted by the client; what they did to its world is for the check at the end to say.
                (void)peers_[i]->client->receive(now_us_);
                if (moving)
                    honk(*peers_[i]);
                (void)peers_[i]->client->send(now_us_);
            }
            Group& own = *groups_[group];
            own.cpu_ns = thread_cpu_ns() - start;
            const std::size_t members = (peers_.size() + groups - 1 - group) / groups; // none, while the late ones are missing
            if (members == 0 || !own.torn.empty())
                continue;
            const Peer& peer = *peers_[group + now_us_ / tick_us % members * groups];
            if (const std::string torn = own.seats.check(*peer.world); !torn.empty())
                own.torn = text_of("client %u: %s", peer.id, torn.c_str());
        }
    });
}

const Sums& Session::advance(bool moving) {
    now_us_ += tick_us;
    server_->receive(now_us_);
    const u64 start = wall_ns();
    if (moving) {
        traffic_.step(world_, executor_);
        passengers_.step(world_);
    }
    const u64 moved = wall_ns();
    for (const auto& peer : peers_) {
        if (moving || !peer->followed) // who joins late still gets a view
            aim(*peer);
        peer->own_vehicle = server_->net_id(peer->followed);
    }
    const TickReport& report = server_->tick(now_us_);
    last_ = sums_of(report);
    last_.world_wall_ns = moved - start;
    joined_ = report.clients, entities_ = report.entities, chunks_ = report.chunks;
    if (report.encodes != report.keys && unequal_encodes_tick_ == 0)
        unequal_encodes_tick_ = report.tick, unequal_encodes_ = report.encodes, unequal_keys_ = report.keys;
    const u64 clients_start = wall_ns();
    run_clients(moving);
    last_.clients_wall_ns = wall_ns() - clients_start;
    for (const auto& group : groups_)
        last_.clients_cpu_ns += group->cpu_ns;
    last_.unseen_honks = report.typed.unseen_references + report.typed.dead_references;
    (moving ? totals_ : drain_totals_) += last_;
    if (moving) {
        u64 busiest_ns = 0;
        for (const StageTime& stage : last_.stages)
            busiest_ns += stage.cpu_max_ns;
        tick_ms_.push_back(static_cast<double>(busiest_ns) / 1e6);
    }
    return last_;
}

// -------------------------------------------------------------------------------------------------------------- the check

void Session::begin_drain() {
    for (const auto& peer : peers_) {
        network_->set_link(peer->id, Direction::down, {});
        network_->set_link(peer->id, Direction::up, {});
        peer->hash_reports_before = peer->client->stats().hash_reports;
    }
    still_since_ = server_->current_tick();
}

/// What is under way arrives, what was lost is found lost and sent again; then a heartbeat says so, and a hash is asked for.
u32 Session::drain_ticks_max() const {
    const double way_ms = options_.rtt_ms + 2 * options_.jitter_ms;
    return 200 + 6 * static_cast<u32>(way_ms * tick_hz / 1000);
}

u32 Session::settled_clients() const {
    u32 count = 0;
    for (const auto& peer : peers_)
        count += server_->joined(peer->id) && server_->settled(peer->id) && peer->client->any_settled() &&
                 !tick_newer(still_since_, peer->client->settled_tick()) && peer->client->stats().hash_reports > peer->hash_reports_before;
    return count;
}

bool Session::drained() const {
    // The last reports have reached the server when it has counted as many as there are clients.
    return settled_clients() == peers_.size() && drain_totals_.hashes_equal + drain_totals_.hashes_different >= peers_.size();
}

void Session::cut_off() { cut_off_ = 0; }

std::string Session::spoil() {
    if (options_.sabotage == throng_verify::Kind::none || options_.sabotage == throng_verify::Kind::stale)
        return {};
    for (const auto& peer : peers_)
        if (throng_verify::sabotage(options_.sabotage, protocol_, *peer->world, *peer->client))
            return {};
    return "no client has anything to damage";
}

std::string Session::first_difference(throng_verify::Verifier& verifier, std::string& name) {
    for (const auto& peer : peers_)
        if (const auto found = verifier.check(peer->id, *peer->world, *peer->client, still_since_)) {
            name = throng_verify::to_string(found.kind);
            return found.text;
        }
    // Each of these looks at every vehicle: where that is too much, some clients stand for all.
    const u64 looks = u64(peers_.size()) * world_.entity_count();
    const std::size_t stride = static_cast<std::size_t>(1 + looks / promise_looks_max);
    for (std::size_t i = 0; i < peers_.size(); i += stride) {
        const auto& peer = peers_[i];
        const scenarios::Position* const center = world_.get<scenarios::Position>(peer->followed);
        if (!center)
            continue; // its vehicle has left, and no other came
        if (const auto found = verifier.check_promise(peer->id, center->x, center->z, options_.radius_m)) {
            name = throng_verify::to_string(found.kind);
            return found.text;
        }
    }
    return {};
}

/// Passengers go with their vehicle, at any time and on any client.
std::string Session::torn_cluster() {
    for (const auto& group : groups_)
        if (!group->torn.empty())
            return group->torn;
    for (const auto& peer : peers_)
        if (const std::string torn = groups_[0]->seats.check(*peer->world); !torn.empty())
            return text_of("client %u: %s", peer->id, torn.c_str());
    return {};
}

/// A client sees the purse of its own vehicle, and no other. (The verifier goes by what the server says that a client may see.)
std::string Session::seen_purse() const {
    for (const auto& peer : peers_) {
        const Entity own = peer->client->entity(peer->own_vehicle);
        std::string found;
        static_cast<const World&>(*peer->world).each<Purse>([&](Entity entity, const Purse&) {
            if (entity != own)
                found = text_of("client %u sees what the owner of entity %u.%llu earns", peer->id, entity.entity_idx,
                                static_cast<unsigned long long>(entity.entity_id));
        });
        if (!found.empty())
            return found;
        const OwnedBy* const owned = world_.get<OwnedBy>(peer->followed);
        if (owned && owned->client == peer->id && own && !peer->world->has<Purse>(own))
            return text_of("client %u does not see what it earns itself", peer->id);
    }
    return {};
}

u32 Session::purses_seen() const {
    u32 count = 0;
    for (const auto& peer : peers_)
        static_cast<const World&>(*peer->world).each<Purse>([&](const Purse&) { ++count; });
    return count;
}

Horn Session::horn() const {
    Horn sums;
    for (const auto& peer : peers_) {
        sums.sent += peer->honks_sent;
        sums.heard_by_clients += peer->honks_heard;
    }
    sums.heard_by_server = horns_->heard;
    sums.unseen = totals_.unseen_honks + drain_totals_.unseen_honks;
    return sums;
}

/// Each one sent has arrived, or named a vehicle that the client did not see any more; and so back.
std::string Session::lost_honk() const {
    const auto number = [](u64 value) { return static_cast<unsigned long long>(value); };
    if (const Horn sums = horn(); sums.heard_by_server + sums.unseen != sums.sent)
        return text_of("clients have sent %llu, the server has heard %llu and %llu named what the client did not see", number(sums.sent),
                       number(sums.heard_by_server), number(sums.unseen));
    for (const auto& peer : peers_) {
        const u64 sent = server_->messages_sent<Honked>(peer->id), received = peer->client->stats().typed.received;
        if (sent != received)
            return text_of("client %u: the server has sent %llu, %llu have arrived", peer->id, number(sent), number(received));
    }
    return {};
}

u64 Session::components_shown() const {
    u64 count = 0;
    for (const auto& peer : peers_)
        for (const ComponentInfo& info : protocol_.components())
            if (const PoolBase* pool = static_cast<const World&>(*peer->world).pool_of(info.id))
                count += pool->size();
    return count;
}

double Session::mean_visible() const {
    u64 count = 0;
    for (const auto& peer : peers_)
        count += peer->world->entity_count();
    return ratio(count, peers_.size());
}

Verdict Session::verify(bool drained) {
    Verdict verdict;
    const auto number = [](u64 value) { return static_cast<unsigned long long>(value); };
    char line[256];
    if (verdict.text = spoil(); !verdict.text.empty()) {
        verdict.name = "sabotage";
        return verdict;
    }
    throng_verify::Verifier verifier(protocol_, world_, *server_);
    verdict.text = first_difference(verifier, verdict.name);
    verdict.entities = verifier.entities_compared();
    verdict.components = components_shown();
    if (!verdict)
        return verdict;
    const u64 different = totals_.hashes_different + drain_totals_.hashes_different;
    if (!drained) {
        verdict.name = "unsettled";
        std::snprintf(line, sizeof line, "%u of %zu clients are settled and have sent their state hash after %llu ticks of perfect links",
                      settled_clients(), peers_.size(), number(drain_totals_.ticks));
    } else if (different > 0) {
        verdict.name = "hash";
        std::snprintf(line, sizeof line, "%llu state hashes of clients differ from the server's", number(different));
    } else if (unequal_encodes_tick_ != 0) {
        verdict.name = "encodes";
        std::snprintf(line, sizeof line, "tick %llu: %llu encodes of %llu distinct keys", number(unequal_encodes_tick_),
                      number(unequal_encodes_), number(unequal_keys_));
    } else if (verdict.text = torn_cluster(); !verdict.text.empty()) {
        verdict.name = "torn";
        return verdict;
    } else if (verdict.text = seen_purse(); !verdict.text.empty()) {
        verdict.name = "leak";
        return verdict;
    } else if (verdict.text = lost_honk(); !verdict.text.empty()) {
        verdict.name = "message";
        return verdict;
    } else if (verdict.entities == 0) {
        verdict.name = "empty";
        std::snprintf(line, sizeof line, "no client sees an entity: nothing was compared");
    } else {
        return verdict;
    }
    verdict.text = line;
    return verdict;
}

} // namespace demo
