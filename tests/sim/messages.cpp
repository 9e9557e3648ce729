#include "tests/sim/messages.hpp"
#include "src/server/state.hpp"
#include "tests/sim/filters.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

using namespace throng;

namespace throng_sim {
namespace {

constexpr u32 tick_ms = 50;
constexpr u32 bundle_head_bytes = 17, item_head_bytes = 6; // at most: docs/wire.md, 5

bool same_values(const LetterBody& a, const LetterBody& b) {
    return a.number == b.number && std::llrint(a.share * 100) == std::llrint(b.share * 100) && a.urgent == b.urgent && a.text == b.text;
}

bool contains(const std::vector<u32>& list, u32 value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

} // namespace

Messages::Messages(const Plan& plan, const Protocol& protocol, World& world, Server& server, const Truth& truth,
                   const std::vector<std::unique_ptr<Peer>>& peers, Failure& failure, Tally& tally)
    : plan_(plan), random_(plan.seed ^ 0x1e77e5), world_(world), server_(server), truth_(truth), peers_(peers), failure_(failure),
      tally_(tally), set_ups_(plan.seed ^ 0x5e77) {
    const auto handlers = letter_handlers(Route::to_server, this, [](u32 kind, Messages& at, const LetterBody& body, const Sender& sender) {
        sender.is_local() ? at.post_->hears(Route::to_server, kind, body, sender) : at.at_server(kind, body, sender);
    });
    Error error = Error::none;
    if (plan.messengers) {
        post_ = std::make_unique<Post>("the listen server", plan.seed, protocol, MessengerConfig{.server = &server, .local_player = true},
                                       failure, tally);
        alone_.emplace(plan.seed, protocol, plan.server_build, failure, tally);
        error = post_->messenger.set_server_handlers(handlers);
        if (post_->messenger.set_client_handlers(post_->handlers(Route::to_client)) != Error::none)
            failure_.report("the local player does not take the handlers");
    } else {
        error = server_.set_handlers(handlers);
    }
    if (error != Error::none || server_.missing_handler())
        failure_.report("the server does not take the handlers");
}

void Messages::listen(Peer& peer) {
    ears_.resize(std::max<std::size_t>(ears_.size(), peer.name + 1));
    Ear& ear = *(ears_[peer.name] = std::make_unique<Ear>(Ear{this, &peer, {}, {}, nullptr}));
    const auto handlers = letter_handlers(Route::to_client, &ear, [](u32 kind, Ear& at, const LetterBody& body, const Sender& sender) {
        at.messages->at_client(at, kind, body, sender);
    });
    Error error = Error::none;
    if (plan_.messengers) {
        ear.post = std::make_unique<Post>("client " + std::to_string(peer.name), plan_.seed + peer.name, peer.protocol,
                                          MessengerConfig{.client = &peer.client}, failure_, tally_);
        error = ear.post->messenger.set_client_handlers(handlers);
        if (ear.post->messenger.set_server_handlers(ear.post->handlers(Route::to_server)) != Error::none)
            failure_.report("client %u does not take the handlers of what it shares", peer.name);
    } else {
        error = peer.client.set_handlers(handlers);
    }
    if (error != Error::none || peer.client.missing_handler())
        failure_.report("client %u does not take the handlers", peer.name);
}

// ---------------------------------------------------------------------------------------------------- sending
void Messages::act(bool faults) {
    if (plan_.letter_chance == 0 || (faults && !random_.chance(plan_.letter_chance)))
        return;
    answering_ = faults;
    for (u32 left = 1 + random_.below(random_.chance(0.05) ? 20 : 3); left > 0; --left) {
        const u32 kind = random_.below(letter_kinds);
        if (random_.chance(0.1))
            change_group();
        if (peers_.empty() || random_.chance(0.6))
            send_to_clients(kind, nullptr);
        else
            send_to_server(*peers_[random_.below(static_cast<u32>(peers_.size()))], kind);
    }
}

/// Dead ones too, and some that nobody replicates.
Entity Messages::any_entity(Random& random) const {
    if (random.chance(0.3))
        return {};
    if (random.chance(0.1) && !letters_.empty()) // one of before, which may have ended
        return letters_[random.below(static_cast<u32>(letters_.size()))].body.first;
    const Entity entity = world_.entity_slots() ? world_.entity_at(random.below(world_.entity_slots())) : Entity{};
    return world_.alive(entity) && entity != server_.resource_entity() ? entity : Entity{};
}

void Messages::write(const LetterKind& kind, LetterBody& body, bool from_server) {
    body.serial = static_cast<u32>(letters_.size()) + 1;
    body.number = static_cast<i64>(random_.next() >> random_.below(64));
    body.share = random_.range(-1000, 1000) / 100.0;
    body.urgent = random_.chance(0.5);
    u32 bytes = random_.below(random_.chance(0.1) ? 250 : 40);
    if (random_.chance(0.03)) { // near a limit: its own, or that of the backend
        const u32 heads = letter_bytes_max(kind, 0) + item_head_bytes + (from_server ? bundle_head_bytes : 1);
        const u32 most = server_.state().backend.message_bytes_max(kind.options.channel);
        bytes = std::min(text_bytes_max(kind), random_.chance(0.5) && most > heads ? most - heads : ~0u);
        bytes += random_.pick({0u, 0u, 1u, 2u, 300u});
    }
    body.text.resize(std::min(bytes, kind.options.bytes_max + 10));
    for (char& letter : body.text)
        letter = static_cast<char>(random_.below(256));
}

/// Whether the letter is sent; if not, as it should be.
bool Messages::expect(const char* what, u32 kind, Error error, Error expected, bool limit_possible) {
    if (error != expected && !(error == Error::limit_reached && limit_possible))
        failure_.report("%s: sending a letter of the kind \"%s\" returns %s, not %s", what, letter_kind(kind).name, to_string(error),
                        to_string(expected));
    if (error == Error::too_large)
        tally_.add(Happening::letter_too_large);
    return error == Error::none;
}

void Messages::send_to_clients(u32 number, const Peer* answered) {
    const LetterKind& kind = letter_kind(number);
    Sent letter;
    letter.kind = number;
    write(kind, letter.body, true);
    if (!kind.plain) {
        letter.body.first = any_entity(random_);
        letter.body.second = random_.chance(0.5) ? Entity{} : any_entity(random_);
    }
    for (const auto& peer : peers_)
        if (!peer->dismissed && (peer->joined ? !peer->cut : kind.options.independent && peer->seated))
            letter.among.push_back(peer->name);
    To to;
    std::vector<ClientId> excepted;
    Error expected = Error::none;
    if (answered) {
        to = To::client(answered->id);
        letter.client = answered->name;
        letter.target = to.kind;
        expected = answered->dismissed ? Error::no_connection : Error::none;
    } else {
        address(letter, to, excepted, expected);
        if (post_)
            include_local(letter, to, excepted);
    }
    const u32 text = static_cast<u32>(letter.body.text.size());
    if (text > text_bytes_max(kind) || bundle_head_bytes + item_head_bytes + letter_bytes_max(kind, text) >
                                           server_.state().backend.message_bytes_max(kind.options.channel))
        expected = Error::too_large;
    if (!kind.goes(Route::to_client))
        expected = Error::bad_value;
    const Entity named[2] = {letter.body.first, letter.body.second};
    for (u32 i = 0; i < 2; ++i)
        letter.ids[i] = server_.net_id(named[i]);
    const Error error = by_kind(number, [&]<u32 k>(std::integral_constant<u32, k>) { //
        return post_ ? post_->messenger.to_clients(to, letter_of<k>(letter.body)) : server_.send_message(to, letter_of<k>(letter.body));
    });
    const auto aimed_at = [&](const auto& peer) { return peer->name == letter.client; };
    const auto one = letter.target == To::Kind::client ? std::find_if(peers_.begin(), peers_.end(), aimed_at) : peers_.end();
    if (one != peers_.end() && (*one)->dirty && error == Error::no_connection)
        expected = error; // the server may have turned it away
    if (!expect("the server", number, error, expected, plan_.server.typed_tick_bytes_max < 1u << 20))
        return;
    if (post_ && reaches_local(letter, to))
        post_->stays(Route::to_client, number, letter.body);
    letters_.push_back(std::move(letter));
}

/// Where the server has a player of its own, that one is left out at times.
void Messages::include_local(Sent& letter, To& to, std::vector<ClientId>& excepted) {
    if (to.kind == To::Kind::all_except || (to.kind == To::Kind::all && set_ups_.chance(0.2))) {
        if (to.kind == To::Kind::all || set_ups_.chance(0.3))
            excepted.push_back(local_player);
        to = To::all_except(excepted);
        letter.target = to.kind;
    }
}

bool Messages::reaches_local(const Sent& letter, const To& to) const {
    switch (letter.target) {
    case To::Kind::client:
        return false;
    case To::Kind::all_except:
        return std::find(to.except.begin(), to.except.end(), local_player) == to.except.end();
    case To::Kind::layers:
        return (letter.layers & post_->layers()) != 0;
    case To::Kind::group:
        return groups_[letter.group].local;
    default:
        return true;
    }
}

void Messages::dispatch(bool faults) {
    if (!post_)
        return;
    if (faults) {
        const Entity named[] = {any_entity(set_ups_), any_entity(set_ups_), {}};
        post_->act(named);
        alone_->tick();
    }
    if (!faults || set_ups_.chance(0.8))
        post_->dispatch();
    for (const auto& peer : peers_)
        ear(*peer).post->dispatch();
}

void Messages::address(Sent& letter, To& to, std::vector<ClientId>& excepted, Error& expected) {
    const auto any_peer = [&]() -> const Peer* {
        return peers_.empty() ? nullptr : peers_[random_.below(static_cast<u32>(peers_.size()))].get();
    };
    switch (random_.below(7)) {
    case 0:
    case 1:
        break;
    case 2:
        if (const Peer* const peer = any_peer()) {
            to = To::client(peer->id != local_player ? peer->id : local_player - 1); // without a seat it has no number
            letter.client = peer->name;
            expected = contains(letter.among, peer->name) ? Error::none : Error::no_connection;
        }
        break;
    case 3:
        for (u32 left = random_.below(4); left > 0; --left)
            if (const Peer* const peer = any_peer()) {
                excepted.push_back(peer->id);
                letter.excepted.push_back(peer->name);
            }
        to = To::all_except(excepted);
        break;
    case 4:
        letter.layers = random_.next() & 0x8000'0000'0000'0007u;
        to = To::layers(letter.layers);
        break;
    case 5:
        if (groups_.empty())
            break;
        letter.group = random_.below(static_cast<u32>(groups_.size()));
        if (groups_[letter.group].dropped) // its id may be another's by now
            break;
        to = To::group(groups_[letter.group].id);
        break;
    default:
        if (const Entity entity = any_entity(random_)) {
            to = To::observers(entity);
            letter.observed = entity;
            expected = world_.alive(entity) ? Error::none : Error::bad_value;
        }
    }
    letter.target = to.kind;
}

void Messages::send_to_server(Peer& peer, u32 number) {
    const LetterKind& kind = letter_kind(number);
    Sent letter;
    letter.kind = number;
    letter.to_server = true;
    letter.from = peer.name;
    letter.tick = server_.current_tick();
    write(kind, letter.body, false);
    const auto any_shown = [&]() -> Entity {
        if (random_.chance(0.3) || !peer.world.entity_slots())
            return {};
        const Entity entity = peer.world.entity_at(random_.below(peer.world.entity_slots()));
        return peer.world.alive(entity) ? entity : Entity{};
    };
    Error expected = Error::none;
    if (!kind.plain) {
        letter.body.first = any_shown();
        letter.body.second = random_.chance(0.5) ? Entity{} : any_shown();
        const Entity named[2] = {letter.body.first, letter.body.second};
        for (u32 i = 0; i < 2; ++i) {
            letter.ids[i] = peer.client.net_id(named[i]);
            if (named[i] && !letter.ids[i]) // the game's own
                expected = Error::bad_value;
        }
    }
    const u32 text = static_cast<u32>(letter.body.text.size());
    if (expected == Error::none && (text > text_bytes_max(kind) || 1 + item_head_bytes + letter_bytes_max(kind, text) >
                                                                       server_.state().backend.message_bytes_max(kind.options.channel)))
        expected = Error::too_large;
    if (!peer.client.joined())
        expected = Error::no_connection;
    if (!kind.goes(Route::to_server))
        expected = Error::bad_value;
    Post* const post = ear(peer).post.get();
    const bool shared = post && set_ups_.chance(0.4);
    const Error error = by_kind(number, [&]<u32 k>(std::integral_constant<u32, k>) {
        const Letter<k> sent = letter_of<k>(letter.body);
        return !post ? peer.client.send_message(sent) : shared ? post->messenger.shared(sent) : post->messenger.to_server(sent);
    });
    if (shared && error == Error::none)
        post->stays(Route::to_server, number, letter.body);
    if (post && post->messenger.to_clients(To::all(), Letter<0>{}) != Error::no_connection)
        failure_.report("client %u sends to clients", peer.name);
    if (error == Error::wrong_protocol && (peer.dirty || (peer.other_build && !peer.client.joined())))
        expected = error; // by the table, damaged or not, the server has no letters
    if (expect("a client", number, error, expected, plan_.letters_pile_up))
        letters_.push_back(std::move(letter));
}

void Messages::change_group() {
    const u32 what = random_.below(8);
    if (groups_.empty() || (what == 0 && groups_.size() < 6)) {
        groups_.push_back({server_.make_group(), {}, false});
        return;
    }
    Group& group = groups_[random_.below(static_cast<u32>(groups_.size()))];
    if (group.dropped || peers_.empty())
        return;
    if (what == 1) {
        server_.drop_group(group.id);
        group.dropped = true;
        Group next{server_.make_group(), {}, false}; // perhaps under the same id
        for (const auto& peer : peers_)
            if (peer->joined && !peer->cut) {
                server_.add_to_group(next.id, peer->id);
                next.members.push_back(peer->name);
            }
        groups_.push_back(next);
        return;
    }
    const Peer& peer = *peers_[random_.below(static_cast<u32>(peers_.size()))];
    if (!peer.joined || peer.cut)
        return;
    std::erase(group.members, peer.name);
    if (post_ && set_ups_.chance(0.3)) {
        group.local = !group.local;
        group.local ? server_.add_to_group(group.id, local_player) : server_.remove_from_group(group.id, local_player);
    }
    if (what < 6) {
        server_.add_to_group(group.id, peer.id);
        group.members.push_back(peer.name);
    } else {
        server_.remove_from_group(group.id, peer.id);
    }
}

// ---------------------------------------------------------------------------------------------------- who gets it
void Messages::before_tick() {
    for (std::size_t i = unresolved_; i < letters_.size(); ++i) {
        Sent& letter = letters_[i];
        letter.observed_before = server_.net_id(letter.observed);
        const bool ends = truth_.ends_now(letter.observed) && server_.state().slot_of(letter.observed); // has been replicated
        letter.ended = letter.observed && (!world_.alive(letter.observed) || ends);
    }
}

/// By what the game has said and where things are, which is all that counts in most cases; after the tick.
Messages::Sees Messages::sees(const Peer& peer, Entity entity) const {
    const VisibleTo* const rule = world_.get<VisibleTo>(entity);
    const Lasting* const lasting = world_.get<Lasting>(entity);
    if (!peer.joined)
        return Sees::no;
    if (!world_.has<Replicated>(entity))
        return server_.net_id(entity) ? Sees::unknown : Sees::no; // paused ones stay with those who saw them
    if (plan_.server.chunks_max < 1000 || (lasting && (lasting->from_start || plan_.server.lasting_max < 1000)))
        return Sees::unknown;
    if (!peer.may_see.shows(entity) || (rule && !rule->allows(peer.may_see.layers)) || refused_by_filter(world_, server_, peer, entity))
        return Sees::no;
    if (plan_.bond_chance > 0)
        return Sees::unknown; // its cluster's root may be elsewhere
    const Place* const place = world_.get<Place>(entity);
    if (!place)
        return Sees::yes;
    if (!peer.has_view)
        return Sees::no;
    if (peer.focus && (!world_.has<Place>(peer.focus) || !world_.has<Replicated>(peer.focus)))
        return Sees::unknown;
    const auto on_map = [](float value) { return std::clamp(static_cast<double>(value), -map_edge, map_edge); };
    const double distance = std::hypot(on_map(place->x) - peer.at[0], on_map(place->z) - peer.at[1]);
    return distance <= 0.85 * peer.radius ? Sees::yes : distance > 1.2 * peer.radius ? Sees::no : Sees::unknown;
}

void Messages::resolve(Sent& letter) {
    const Tick tick = letter.tick = server_.current_tick();
    const Entity named[2] = {letter.body.first, letter.body.second};
    for (u32 i = 0; i < 2; ++i) {
        if (!letter.ids[i])
            letter.ids[i] = server_.net_id(named[i]);
        if (!letter.ids[i] && world_.has<Replicated>(named[i]) && plan_.server.chunks_max > 1000)
            failure_.report("an entity that is replicated has no net id");
    }
    for (const auto& peer : peers_) {
        if (peer->cut || !contains(letter.among, peer->name))
            continue; // turned away meanwhile
        bool gets = true;
        switch (letter.target) {
        case To::Kind::client:
            gets = letter.client == peer->name;
            break;
        case To::Kind::all:
            break;
        case To::Kind::all_except:
            gets = !contains(letter.excepted, peer->name);
            break;
        case To::Kind::layers:
            gets = (letter.layers & peer->may_see.layers) != 0;
            break;
        case To::Kind::group:
            gets = !groups_[letter.group].dropped && contains(groups_[letter.group].members, peer->name);
            break;
        case To::Kind::observers:
            if (letter.ended) {
                gets = letter.observed_before && peer->sight(tick - 1, letter.observed_before);
                tally_.add(Happening::letter_about_ended, gets);
            } else if (const Sees sight = sees(*peer, letter.observed); sight != Sees::unknown) {
                gets = sight == Sees::yes;
            } else {
                const NetId id = server_.net_id(letter.observed);
                gets = id && peer->sight(tick, id);
            }
        }
        if (gets)
            letter.receivers.push_back(peer->name);
    }
}

void Messages::after_tick(const TickReport& report) {
    u64 deliveries = 0, sent = 0;
    for (; unresolved_ < letters_.size(); ++unresolved_) {
        Sent& letter = letters_[unresolved_];
        if (letter.to_server)
            continue;
        resolve(letter);
        deliveries += letter.receivers.size();
        for (const u32 name : letter.receivers)
            ++ears_[name]->at_client.due[letter.kind];
        ++sent;
        if (tracing) {
            std::printf("          letter %u, %s, goes to", letter.body.serial, letter_kind(letter.kind).name);
            for (const u32 name : letter.receivers)
                std::printf(" %u", name);
            std::printf(" of %zu, target %u, slot %u%s\n", letter.among.size(), static_cast<u32>(letter.target), letter.observed.entity_idx,
                        letter.ended ? ", which has ended" : "");
        }
    }
    dropped_up_ += report.typed.flooded;
    if (report.typed.received + report.typed.unseen_references + report.typed.dead_references + report.typed.flooded)
        for (const auto& peer : peers_)
            peer->news_heard = true;
    tally_.add(Happening::letter_unseen, report.typed.unseen_references + report.typed.dead_references);
    tally_.add(Happening::letter_backlogged, report.typed.backlogged);
    tally_.add(Happening::client_cut_off, (report.limits & limit_typed_backlog) != 0);
    const bool dirty = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->dirty; });
    if (report.typed.sent != sent || report.typed.encoded != sent)
        failure_.report("%llu letters were sent, and %llu encoded, not %llu", static_cast<unsigned long long>(report.typed.sent),
                        static_cast<unsigned long long>(report.typed.encoded), static_cast<unsigned long long>(sent));
    const bool cut_off = report.limits & limit_typed_backlog; // nobody can ask what it saw
    if (report.typed.deliveries != deliveries && !dirty && !cut_off)
        failure_.report("letters go to %llu clients, not %llu", static_cast<unsigned long long>(report.typed.deliveries),
                        static_cast<unsigned long long>(deliveries));
}

// ---------------------------------------------------------------------------------------------------- arrival
/// The letter that has arrived, counted; null where nothing more is to be looked at.
const Messages::Sent* Messages::take(const char* where, Inbox& inbox, Peer& peer, u32 kind, const LetterBody& body, bool to_server) {
    if (peer.dirty)
        return nullptr; // damage changes letters
    if (body.serial == 0 || body.serial > letters_.size() || letters_[body.serial - 1].kind != kind ||
        letters_[body.serial - 1].to_server != to_server) {
        failure_.report("%s of client %u: a letter arrives that nobody sent", where, peer.name);
        return nullptr;
    }
    const Sent& letter = letters_[body.serial - 1];
    const LetterKind& options = letter_kind(kind);
    if (!same_values(letter.body, body))
        failure_.report("%s of client %u: letter %u of the kind \"%s\" has changed", where, peer.name, body.serial, options.name);
    if (to_server ? letter.from != peer.name : !contains(letter.receivers, peer.name))
        failure_.report("%s of client %u: letter %u of the kind \"%s\" is not meant for it", where, peer.name, body.serial, options.name);
    inbox.times.resize(std::max<std::size_t>(inbox.times.size(), letters_.size() + 1));
    const u32 most = !options.reliable() && plan_.duplicate_percent > 0 ? 2 : 1; // an unreliable one may come twice where packets do
    if (++inbox.times[body.serial] > most)
        failure_.report("%s of client %u: letter %u of the kind \"%s\" arrives again", where, peer.name, body.serial, options.name);
    ++inbox.count[kind];
    if (options.ordered()) {
        const bool waited = !to_server && options.waits();
        if (body.serial < (waited ? inbox.newest[kind] : inbox.newest_ordered))
            failure_.report("%s of client %u: letter %u of the kind \"%s\" arrives after letter %u", where, peer.name, body.serial,
                            options.name, waited ? inbox.newest[kind] : inbox.newest_ordered);
        inbox.newest[kind] = body.serial;
        inbox.newest_ordered = std::max(inbox.newest_ordered, body.serial);
    }
    if (peer.tracing)
        std::printf("          %s of client %u: letter %u, %s\n", where, peer.name, body.serial, options.name);
    return &letter;
}

void Messages::at_client(Ear& ear, u32 kind, const LetterBody& body, const Sender& sender) {
    Peer& peer = *ear.peer;
    const Sent* const letter = take("world", ear.at_client, peer, kind, body, false);
    if (!letter)
        return;
    tally_.add(Happening::letter_to_clients);
    const LetterKind& options = letter_kind(kind);
    if (sender.origin != Sender::Origin::server)
        failure_.report("client %u: a letter comes from somebody else than the server", peer.name);
    tally_.add(Happening::letter_to_unjoined, !peer.client.joined());
    if (!peer.client.joined() && !options.options.independent)
        failure_.report("client %u gets a letter before it has joined", peer.name);
    if (options.options.waits_for_tick && tick_newer(letter->tick, peer.client.newest_tick()))
        failure_.report("client %u gets letter %u of tick %u before it has heard of that tick", peer.name, body.serial, letter->tick);
    const Entity named[2] = {letter->body.first, letter->body.second}, read[2] = {body.first, body.second};
    for (u32 i = 0; i < 2; ++i) {
        const Entity shown = letter->ids[i] ? peer.client.entity(letter->ids[i]) : Entity{};
        if (read[i] != shown || (letter->ids[i] && truth_.entity_id_of(letter->ids[i]) != named[i].entity_id))
            failure_.report("client %u: letter %u of the kind \"%s\" names slot %u for %u.%u, which is %sshown", peer.name, body.serial,
                            options.name, read[i].entity_idx, letter->ids[i].index(), letter->ids[i].generation(), shown ? "" : "not ");
        if (letter->ids[i] && !shown && !options.options.independent)
            failure_.report("client %u gets letter %u before entity %u.%u", peer.name, body.serial, letter->ids[i].index(),
                            letter->ids[i].generation());
    }
    if (answering_ && random_.chance(0.05))
        send_to_server(peer, random_.below(letter_kinds));
}

void Messages::at_server(u32 kind, const LetterBody& body, const Sender& sender) {
    const auto from = std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer->id == sender.client; });
    if (sender.origin != Sender::Origin::client || from == peers_.end())
        return failure_.report("a letter comes from nobody");
    Peer& peer = **from;
    const Sent* const letter = take("server", ear(peer).at_server, peer, kind, body, true);
    if (!letter)
        return;
    tally_.add(Happening::letter_to_server);
    const Entity read[2] = {body.first, body.second};
    for (u32 i = 0; i < 2; ++i) {
        const NetId id = letter->ids[i];
        if ((id ? truth_.entity_id_of(id) : 0) != read[i].entity_id || (id && !world_.alive(read[i])))
            failure_.report("the server reads another entity in letter %u of client %u", body.serial, peer.name);
        if (id && !peer.sight(server_.current_tick(), id))
            failure_.report("letter %u of client %u names an entity that it does not see", body.serial, peer.name);
    }
    if (answering_ && random_.chance(0.2))
        send_to_clients(random_.below(letter_kinds), &peer);
}

// ---------------------------------------------------------------------------------------------------- the end
/// Why a reliable letter may not be there: it waits for an entity, or has waited for too long. `behind`: an earlier one of its kind waits.
bool Messages::excused_at_client(const Sent& letter, Peer& peer, bool behind, u64& dropped) const {
    const LetterKind& kind = letter_kind(letter.kind);
    if (peer.other_build && kind.options.independent && tick_newer(peer.joined_at, letter.tick))
        return true; // it could not read the server's messages yet
    if (!kind.waits())
        return false;
    bool closed = behind;
    for (const NetId id : letter.ids)
        closed |= id && !peer.client.entity(id);
    if (closed)
        return true;
    ++dropped;
    const bool names = letter.ids[0] || letter.ids[1] || kind.options.waits_for_tick || kind.ordered();
    const u32 wait = plan_.client.typed_wait_ms / tick_ms;
    const ClientTypedStats& stats = peer.client.stats().typed;
    return (names && server_.current_tick() - letter.tick >= wait && dropped <= stats.dropped_wait + stats.dropped_limit) ||
           dropped <= stats.dropped_limit;
}

/// It names an entity that the client did not see at some tick since.
bool Messages::excused_at_server(const Sent& letter, const Peer& peer) const {
    for (const NetId id : letter.ids)
        for (Tick tick = letter.tick; id && tick != server_.current_tick() + 1; ++tick)
            if (!peer.sight(tick, id) || truth_.left_behind(tick, id))
                return true;
    return dropped_up_ > 0;
}

void Messages::count(const Peer& peer) {
    const ClientTypedStats& stats = peer.client.stats().typed;
    tally_.add(Happening::letter_that_waited, stats.waited);
    tally_.add(Happening::letter_dropped, stats.dropped_wait + stats.dropped_limit);
}

bool Messages::complete(bool report) {
    for (const auto& peer : peers_) {
        const Ear& ears = ear(*peer);
        const auto got = [](const Inbox& inbox, const Sent& letter) {
            return letter.body.serial < inbox.times.size() && inbox.times[letter.body.serial] > 0;
        };
        bool behind[letter_kinds] = {};
        u64 dropped = 0;
        for (const Sent& letter : letters_) {
            const LetterKind& kind = letter_kind(letter.kind);
            if (!kind.reliable())
                continue;
            const bool at_client = !letter.to_server && contains(letter.receivers, peer->name) && !got(ears.at_client, letter);
            const bool at_server = letter.to_server && letter.from == peer->name && !got(ears.at_server, letter);
            if (at_client && excused_at_client(letter, *peer, behind[letter.kind], dropped)) {
                behind[letter.kind] |=
                    kind.ordered() && server_.current_tick() - letter.tick < 2 * plan_.client.typed_wait_ms / tick_ms + 40;
                continue;
            }
            if (!(at_client || (at_server && !excused_at_server(letter, *peer))))
                continue;
            if (report)
                failure_.report("letter %u of tick %u, of the kind \"%s\", has not arrived %s client %u; it names %u.%u and %u.%u",
                                letter.body.serial, letter.tick, kind.name, at_client ? "at" : "from", peer->name, letter.ids[0].index(),
                                letter.ids[0].generation(), letter.ids[1].index(), letter.ids[1].generation());
            return false;
        }
        if (!report)
            continue;
        for (u32 number = 0; number < letter_kinds; ++number)
            (void)by_kind(number, [&]<u32 k>(std::integral_constant<u32, k>) {
                if (server_.messages_sent<Letter<k>>(peer->id) != ears.at_client.due[k])
                    failure_.report("another number of letters of the kind \"%s\" was sent to client %u than counted", letter_kind(k).name,
                                    peer->name);
                if (server_.messages_received<Letter<k>>(peer->id) != ears.at_server.count[k])
                    failure_.report("another number of letters of the kind \"%s\" came from client %u than counted", letter_kind(k).name,
                                    peer->name);
                return Error::none;
            });
        const ClientTypedStats& stats = peer->client.stats().typed;
        u64 heard = 0;
        for (const u64 count : ears.at_client.count)
            heard += count;
        if (stats.delivered != heard || stats.unhandled || stats.unknown || (stats.wrong_protocol && !peer->other_build))
            failure_.report("client %u counts other letters than it has heard", peer->name);
        if (stats.dropped_limit && plan_.client.typed_waiting_max > 1000 && !peer->limited)
            failure_.report("client %u drops letters at a limit", peer->name);
    }
    return true;
}

} // namespace throng_sim
