#include "tests/sim/peer.hpp"
#include "tests/sim/family.hpp"
#include <algorithm>
#include <cstdarg>
#include <cstdio>

using namespace throng;

namespace throng_sim {

void Failure::report(const char* pattern, ...) {
    if (happened())
        return;
    char line[600];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(line, sizeof line, pattern, arguments);
    va_end(arguments);
    text = line;
}

Peer::Peer(const Protocol& its_protocol, const Build* other, const Build& told, ClientBackend& inner, ClientId client_connection,
           u32 peer_name, const ClientConfig& config, const Truth& truth, Failure& failure, bool is_dirty, bool is_limited)
    : inner_(inner), world({.block_rows = 64}), client(world, its_protocol, *this, listening(config)), id(client_connection),
      connection(client_connection), protocol(its_protocol), other_build(other != nullptr), name(peer_name), dirty(is_dirty),
      limited(is_limited), told_(told), truth_(truth), failure_(failure) {}

ClientConfig Peer::listening(ClientConfig config) {
    config.context = this;
    config.on_userdata = on_userdata;
    return config;
}

void Peer::on_userdata(void* context, Tick tick, Bytes data) {
    Peer& self = *static_cast<Peer*>(context);
    const Userdata expected(tick);
    if (!self.dirty && !std::equal(data.begin(), data.end(), expected.bytes().begin(), expected.bytes().end()))
        self.failure_.report("client %u gets other userdata than those of tick %u", self.name, tick);
}

void Peer::record_visible(Tick tick, const Server& server) {
    struct Context {
        std::vector<Sight>& list;
        const Server& server;
        ClientId id;
    } context{visible_[tick], server, id};
    server.each_visible(
        id,
        [](void* c, Entity entity) {
            auto& [list, s, viewer] = *static_cast<Context*>(c);
            list.push_back({s.net_id(entity), seen_components(s, viewer, entity)});
        },
        &context);
    // Those that it was to see before their end it may still get, as they were.
    for (const NetId net : truth_.left_behind())
        if (const Sight* before = sight(tick - 1, net))
            context.list.push_back(*before);
    std::sort(context.list.begin(), context.list.end(), [](const Sight& x, const Sight& y) { return x.net < y.net; });
}

const Peer::Sight* Peer::sight(Tick tick, NetId net) const {
    const auto list = visible_.find(tick);
    if (list == visible_.end())
        return nullptr;
    const auto found =
        std::lower_bound(list->second.begin(), list->second.end(), net, [](const Sight& one, NetId wanted) { return one.net < wanted; });
    return found != list->second.end() && found->net == net ? &*found : nullptr;
}

void Peer::poll(TimeUs now, ClientBackendSink& sink) {
    sink_ = &sink;
    inner_.poll(now, *this);
}

void Peer::on_message(Channel channel, Bytes message) {
    sink_->on_message(channel, message);
    if (dirty)
        return;
    // The head of a state message, or of one of ends (docs/wire.md): kind, id, tick, age of the settled tick; userdata.
    constexpr std::size_t head_bytes = 8;
    const u32 kind = message.empty() ? 0 : static_cast<u8>(message[0]) & 0x3f;
    news_heard |= kind == 6;
    if (message.size() < head_bytes || (kind != 4 && kind != 7) || !client.joined())
        return;
    Tick tick = 0;
    for (u32 i = 0; i < 4; ++i)
        tick |= static_cast<Tick>(message[3 + i]) << (8 * i);
    const std::size_t userdata_bytes = (message[0] & std::byte{0x40}) != std::byte{} ? 1 + std::to_integer<std::size_t>(message[8]) : 0;
    const bool sections = message.size() > head_bytes + userdata_bytes;
    news_heard |= sections;
    if (sections && (!any_newest_ || tick_newer(tick, newest_)))
        newest_ = tick;
    any_newest_ |= sections;
    if (tracing)
        std::printf("          client %u gets %zu bytes of tick %u on %s, settled age %u\n", name, message.size(), tick,
                    channel == Channel::unreliable ? "unreliable" : "ordered", static_cast<u32>(message[7]));
    const ClientStats& stats = client.stats();
    for (u32 error = 0; error < ClientStats::error_count; ++error)
        if (stats.malformed[error])
            failure_.report("client %u calls a message of tick %u with %zu bytes %s", name, tick, message.size(),
                            to_string(static_cast<Error>(error)));
    check(tick);
    // R9: at a settled tick, with nothing newer applied, exactly the visible entities are shown.
    const u32 age = static_cast<u8>(message[7]);
    if (age == 255 || (any_newest_ && tick_newer(newest_, tick - age)))
        return;
    const auto visible = visible_.find(tick - age);
    std::size_t shown = 0;
    for (const auto& [net, seen] : seen_)
        shown += seen.shown && !seen.frozen && !truth_.left_behind(tick - age, net);
    if (visible == visible_.end())
        return;
    std::size_t wanted = 0;
    for (const auto& [net, components] : visible->second)
        if (!truth_.left_behind(tick - age, net) && !has_ended(net)) {
            ++wanted;
            if (const auto found = seen_.find(net); found == seen_.end() || !found->second.shown || found->second.frozen)
                failure_.report("client %u lacks entity %u.%u at settled tick %u", name, net.index(), net.generation(), tick - age);
        }
    if (shown != wanted)
        failure_.report("client %u shows %zu entities at settled tick %u, not %zu", name, shown, tick - age, wanted);
}

void Peer::check(Tick tick) {
    for (auto& [net, seen] : seen_)
        seen.now = false;
    for (u32 slot = 0; slot < world.entity_slots(); ++slot) {
        const Entity entity = world.entity_at(slot);
        if (!entity)
            continue;
        const NetId net = client.net_id(entity);
        if (!net) {
            check_ahead(entity);
            continue;
        }
        check_entity(entity, net, tick);
    }
    if (ahead() != ahead_.size())
        failure_.report("client %u counts %llu entities of its own, not %zu", name, static_cast<unsigned long long>(ahead()),
                        ahead_.size());
    check_resource();
    if (const std::string wrong = check_family(world); !wrong.empty())
        failure_.report("client %u: %s", name, wrong.c_str());
    for (u32 slot = 0; slot < world.entity_slots(); ++slot)
        if (const Entity entity = world.entity_at(slot); entity && client.net_id(entity))
            check_cluster(entity, client.net_id(entity), tick);
    for (auto& [net, seen] : seen_) {
        if (seen.shown && !seen.now) {
            if (tracing)
                std::printf("          client %u loses %u.%u\n", name, net.index(), net.generation());
            if (seen.lasting && truth_.find(tick, net))
                failure_.report("client %u: a message of tick %u takes the Lasting entity %u.%u away, which is not at its end", name, tick,
                                net.index(), net.generation());
            // Of one that it has where it was at last: from an earlier lane it may still go away before it comes in the new one.
            const EntityTruth* const shown = truth_.find(seen.confirmed, net);
            if (const EntityTruth* const end = truth_.find(tick, net);
                end && end->left_behind && shown && shown->place == end->place && sight(tick, net))
                failure_.report("client %u: a message of tick %u takes entity %u.%u (%llu) away, which was destroyed while it was paused",
                                name, tick, net.index(), net.generation(), static_cast<unsigned long long>(truth_.entity_id_of(net)));
            seen.removed_at = tick;
            seen.removed = true;
        }
        seen.shown = seen.now;
    }
}

/// The world's resource is what the entity says that stands for it; while there are two of them, what one says.
void Peer::check_resource() {
    const Weather* const weather = world.resources().get<Weather>();
    u32 holders = 0, same = 0;
    world.each<ResourceValue<Weather>>([&](const ResourceValue<Weather>& there) {
        ++holders;
        same += weather && there.value == *weather;
    });
    if (holders > 0 ? same == 0 : weather != nullptr)
        failure_.report("client %u has another resource than the %u entities that stand for it", name, holders);
}

void Peer::make_ahead(SpawnSignature signature, Random& random) {
    const Entity entity = world.spawn(MadeAhead{signature.hash}, signature);
    if (random.chance(0.5))
        world.add<Vitals>(entity)->hp = -1; // with the defaults of fields that a build may lack
    if (random.chance(0.3))
        world.add<Speed>(entity, Speed{.x = 1});
    if (random.chance(0.3))
        world.add<Note>(entity, Note{0, "ahead"});
    if (random.chance(0.3))
        world.add<Link>(entity, Link{entity, {}, 0});
    if (random.chance(0.2))
        world.add<Mood>(entity, Mood{1, 0});
    if (random.chance(0.2))
        world.add<Heat>(entity, Heat{1, 0});
    ahead_.push_back({entity, fingerprint(world, entity)});
    ++ahead_made_;
    if (tracing)
        std::printf("          client %u makes slot %u ahead, signature %llx\n", name, entity.entity_idx,
                    static_cast<unsigned long long>(signature.hash));
}

void Peer::end_ahead(Random& random) {
    if (dirty || ahead_.empty())
        return;
    const std::size_t index = random.below(static_cast<u32>(ahead_.size()));
    world.destroy(ahead_[index].entity);
    ahead_.erase(ahead_.begin() + static_cast<std::ptrdiff_t>(index));
    --ahead_made_;
}

void Peer::end_all_ahead() {
    for (const Ahead& own : ahead_)
        world.destroy(own.entity);
    ahead_made_ -= ahead_.size();
    ahead_.clear();
}

void Peer::check_required(Entity entity, NetId net) {
    if (world.has<MadeAhead>(entity))
        return; // what it had before is the game's, with what goes with it
    if ((world.has<Facing>(entity) && !world.has<Stance>(entity)) || world.has<Note>(entity) != world.has<Caption>(entity))
        failure_.report("client %u: entity %u.%u lacks what its rules require, or has what they do not", name, net.index(),
                        net.generation());
    required_seen += world.has<Stance>(entity);
}

NetId Peer::end_shown(Random& random) {
    const Entity entity = world.entity_slots() ? world.entity_at(random.below(world.entity_slots())) : Entity{};
    const NetId net = client.net_id(entity);
    if (!net || world.has<ResourceValue<Weather>>(entity) || world.has<ResourceValue<Scroll>>(entity))
        return {};
    std::vector<std::pair<Entity, NetId>> family{{entity, net}}; // its children go along
    world.each_descendant<ChildOf>(entity, [&](Entity child) { family.push_back({child, client.net_id(child)}); });
    for (const auto& [member, its] : family) {
        ended_[its] = client.confirmed_tick(member);
        seen_[its].shown = false;
    }
    world.destroy(entity);
    for (const auto& [member, its] : family)
        if (world.alive(member))
            failure_.report("client %u still has entity %u.%u, whose parent its game has destroyed", name, its.index(), its.generation());
    if (tracing)
        std::printf("          client %u ends %u.%u\n", name, net.index(), net.generation());
    if (client.net_id(entity) || client.entity(net))
        failure_.report("client %u still knows entity %u.%u, which its game has destroyed", name, net.index(), net.generation());
    return net;
}

/// An entity that the game has destroyed comes back if the server has taken it away: it was out of sight, or has moved to another lane,
/// where it goes before it comes.
void Peer::check_return(NetId net, Tick tick) {
    const auto ended = ended_.find(net);
    if (ended == ended_.end())
        return;
    const EntityTruth* const before = truth_.find(ended->second, net);
    bool taken_away = !before;
    for (Tick t = ended->second; !taken_away && t != tick + 1; ++t) {
        const EntityTruth* const then = truth_.find(t, net);
        taken_away = !then || !sight(t, net) || then->place != before->place;
    }
    if (!taken_away)
        failure_.report("client %u: a message of tick %u brings entity %u.%u back, which the game has destroyed", name, tick, net.index(),
                        net.generation());
    ended_.erase(ended);
    ++came_back;
}

/// One without a net id is the client's own, as it made it.
void Peer::check_ahead(Entity entity) {
    const auto own = std::find_if(ahead_.begin(), ahead_.end(), [&](const Ahead& one) { return one.entity == entity; });
    if (own == ahead_.end())
        failure_.report("client %u has an entity that came from no server", name);
    else if (!std::ranges::equal(fingerprint(world, entity).of, own->fingerprint.of) || !world.has<MadeAhead>(entity))
        failure_.report("client %u: its own entity in slot %u has changed: %s", name, entity.entity_idx, describe(world, entity).c_str());
}

/// One that is newly shown is the client's own of its signature, if it had one.
void Peer::check_adoption(Entity entity, NetId net) {
    const SpawnSignature* const signature = world.get<SpawnSignature>(entity);
    const auto own = std::find_if(ahead_.begin(), ahead_.end(), [&](const Ahead& one) { return one.entity == entity; });
    const MadeAhead* const made = world.get<MadeAhead>(entity);
    if ((own != ahead_.end()) != (made != nullptr))
        failure_.report("client %u: entity %u.%u is one that was taken before", name, net.index(), net.generation());
    if (own != ahead_.end()) {
        if (made && (!signature || signature->hash != made->hash))
            failure_.report("client %u: entity %u.%u took one of another signature", name, net.index(), net.generation());
        seen_[net].own = own->fingerprint;
        ahead_.erase(own);
        return;
    }
    for (const Ahead& one : ahead_)
        if (signature && signature->hash && world.get<MadeAhead>(one.entity) && world.get<MadeAhead>(one.entity)->hash == signature->hash &&
            !client.net_id(one.entity))
            failure_.report("client %u: entity %u.%u is a new one, although one was made for it", name, net.index(), net.generation());
}

void Peer::check_entity(Entity entity, NetId net, Tick tick) {
    ++checks_;
    Seen& seen = seen_[net];
    if (!seen.shown) {
        seen.last = seen.own = {};
        if (tracing)
            std::printf("          client %u shows %u.%u\n", name, net.index(), net.generation());
        if (!sight(tick, net))
            failure_.report("client %u shows entity %u.%u by a message of tick %u, when it was not visible", name, net.index(),
                            net.generation(), tick);
        if (seen.removed && tick_newer(seen.removed_at, tick))
            failure_.report("client %u: a message of tick %u brings entity %u.%u back, removed at %u", name, tick, net.index(),
                            net.generation(), seen.removed_at);
        check_adoption(entity, net);
        check_return(net, tick);
    }
    seen.now = true;
    seen.lasting = world.has<Lasting>(entity);
    seen.frozen = client.frozen(entity);
    if (seen.frozen && !seen.lasting)
        failure_.report("client %u keeps entity %u.%u, which is not Lasting", name, net.index(), net.generation());
    u32 now[sequenced_components];
    sequences(world, entity, now);
    for (u32 i = 0; i < sequenced_components; ++i) {
        if (now[i] && now[i] < seen.sequences[i])
            failure_.report("client %u turns component %u of entity %u.%u back from #%u to #%u", name, i, net.index(), net.generation(),
                            seen.sequences[i], now[i]);
        seen.sequences[i] = std::max(seen.sequences[i], now[i]);
    }
    const Tick confirmed = seen.confirmed = client.confirmed_tick(entity);
    if (client.confirm_history(entity) && !client.confirmed(entity, confirmed))
        failure_.report("client %u: the confirm history of entity %u.%u lacks its confirmed tick %u", name, net.index(), net.generation(),
                        confirmed);
    const EntityTruth* truth = truth_.find(confirmed, net);
    if (!truth) {
        failure_.report("client %u shows entity %u.%u as of tick %u, when there was none", name, net.index(), net.generation(), confirmed);
        return;
    }
    const Sight* const seen_then = sight(confirmed, net);
    if (!seen_then) {
        failure_.report("client %u shows entity %u.%u as of tick %u, when it was not visible", name, net.index(), net.generation(),
                        confirmed);
        return;
    }
    if (requires_more)
        check_required(entity, net);
    const Fingerprint here = fingerprint(world, entity);
    bundles_seen += world.has<Ammo>(entity) && world.has<Barrel>(entity);
    if (!seen.frozen)
        seen.kept = kept_components(client, entity);
    if (seen.last.only(seen.kept).difference(here.only(seen.kept)) < component_count)
        failure_.report("client %u changes what it keeps of entity %u.%u (message of tick %u): %s", name, net.index(), net.generation(),
                        tick, describe(world, entity).c_str());
    seen.last = here;
    // What a client has made itself keeps the components that one of the builds lacks: they are the game's own.
    Fingerprint expected = truth->told(other_build).only(seen_then->components);
    for (u32 c = 0; c < component_count; ++c)
        if (!(component_bits(told_) >> c & 1))
            expected.of[c] = seen.own.of[c];
    if (const u32 c = expected.difference(here.only(~seen.kept)); c < component_count)
        failure_.report("client %u shows component %u of entity %u.%u (%llu) otherwise than it was at its confirmed tick %u (message of "
                        "tick %u): %s",
                        name, c, net.index(), net.generation(), static_cast<unsigned long long>(truth_.entity_id_of(net)), confirmed, tick,
                        describe(world, entity).c_str());
    if (const Link* link = world.get<Link>(entity); link && !limited && !(seen.kept >> 4 & 1)) { // beyond references_max they read as null
        check_link(net, confirmed, *truth, 0, link->first);
        check_link(net, confirmed, *truth, 1, link->second);
    }
    if (const ChildOf* up = world.get<ChildOf>(entity); up && !limited && !(seen.kept >> static_cast<u32>(Piece::child_of) & 1)) {
        parents_seen += world.alive(up->target);
        check_target("parent", net, confirmed, truth->parent, truth->parent_id, up->target);
    }
}

/// R12: what is shown of an entity's cluster is as it was when the entity was as it is shown, or newer, and then the other way round.
void Peer::check_cluster(Entity entity, NetId net, Tick tick) {
    const Tick confirmed = client.confirmed_tick(entity);
    const EntityTruth* truth = truth_.find(confirmed, net);
    if (!truth || !truth->cluster || client.frozen(entity))
        return;
    for (const NetId mate : truth_.cluster(confirmed, truth->cluster)) {
        const Entity there = client.entity(mate);
        // One that it was not to see then may have come from elsewhere, and go a little later.
        const Sight* const seen_then = sight(confirmed, mate);
        if (mate == net || !there || client.frozen(there) || !seen_then || tick_newer(client.confirmed_tick(there), confirmed))
            continue;
        ++checks_;
        if (const EntityTruth* then = truth_.find(confirmed, mate);
            then && then->told(other_build)
                            .only(seen_then->components)
                            .difference(fingerprint(world, there).only(~seen_[mate].kept & component_bits(told_))) < component_count)
            failure_.report(
                "client %u shows entity %u.%u as of tick %u, and of its cluster %u.%u as of tick %u, when it was another (message "
                "of tick %u): %s",
                name, net.index(), net.generation(), confirmed, mate.index(), mate.generation(), client.confirmed_tick(there), tick,
                describe(world, there).c_str());
    }
}

/// R11: a reference names its target while that is shown, else it is null. A target that died or was replicated anew may be named by
/// the net id it had before.
void Peer::check_link(NetId net, Tick confirmed, const EntityTruth& truth, u32 index, Entity shown) {
    if (!told_.has(Piece::link) || (index == 1 && !told_.has(Piece::link_second))) {
        if (shown && told_.has(Piece::link))
            failure_.report("client %u: reference %u of entity %u.%u, which only one of the builds has, is not null", name, index,
                            net.index(), net.generation());
        return;
    }
    check_target(index == 0 ? "first link" : "second link", net, confirmed, truth.links[index], truth.link_ids[index], shown);
}

/// `named`, and the server's entity `named_id`, is what it named at that tick; `shown` is what it names here.
void Peer::check_target(const char* what, NetId net, Tick confirmed, NetId named, u64 named_id, Entity shown) {
    const Entity expected = client.entity(named);
    if (shown == expected || (!world.alive(shown) && has_ended_id(named_id)))
        return;
    const NetId shown_net = shown == Entity{} ? NetId{} : client.net_id(shown);
    if (shown_net && named_id == truth_.entity_id_of(shown_net) && shown_net != named)
        return;
    failure_.report("client %u: the %s of entity %u.%u names %u.%u, at tick %u it was %u.%u, which is %sshown", name, what, net.index(),
                    net.generation(), shown_net.index(), shown_net.generation(), confirmed, named.index(), named.generation(),
                    expected ? "" : "not ");
}

} // namespace throng_sim
