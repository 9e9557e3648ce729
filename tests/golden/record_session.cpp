// Prints a golden file (format: tools/wire_check.py) of all that a server and its clients say to each other over the loopback: joins,
// deltas against many baselines, gone lanes, references, opaque components, heartbeats, acks with state hashes. The links lose, double
// and delay; what was lost is left out.
#include "src/server/state.hpp"
#include "tests/golden/golden_print.hpp"
#include "tests/sim/components.hpp"
#include "tests/sim/random.hpp"
#include "throng/loopback.hpp"
#include <cstring>
#include <iterator>
#include <vector>
#include <zstd.h>

using namespace throng;
using throng_sim::Facing;
using throng_sim::Link;
using throng_sim::Note;
using throng_sim::Place;
using throng_sim::Random;
using throng_sim::Speed;
using throng_sim::Vitals;

namespace {

struct Session {
    const char* name;
    u64 seed;
    Compression compression;
    bool dictionary, wide_cells;
    Tick first_tick;
    bool lasting = false;  // half of the entities are Lasting, some of them from the start
    bool userdata = false; // most messages have some
    bool scoped = false;   // clients do not see all components, and keep some of those that they do not see
};
constexpr Session sessions[] = {
    {"packed", 11, Compression::never, false, false, 0xffff'fff0u}, // ticks wrap soon
    {"packed_wide", 12, Compression::never, false, true, 1},        {"zstd", 13, Compression::always, true, false, 0xffff'ffe0u},
    {"zstd_wide", 14, Compression::always, true, true, 70'000},     {"automatic", 15, Compression::automatic, true, false, 1},
    {"lasting", 16, Compression::never, false, false, 1, true},
    {"userdata", 18, Compression::never, false, false, 1, true, true},
    {"scopes", 20, Compression::automatic, true, false, 1, false, false, true},
};
constexpr char dictionary_text[] = "the old town of entities, names, guilds and long titles";
constexpr u32 play_ticks = 48, rest_ticks = 40;

/// Writes what is delivered, in either direction.
struct Recorder {
    bool zstd = false;
    static void record(void* context, const TraceRecord& record) {
        const bool marked = static_cast<Recorder*>(context)->zstd && record.direction == Direction::down;
        golden::print_delivered(record, marked ? "\"zstd\": true, " : "\"zstd\": false, ");
    }
};

class Play {
public:
    explicit Play(const Session& session)
        : random_(session.seed), dictionary_(std::as_bytes(std::span(dictionary_text, sizeof dictionary_text - 1))),
          protocol_(throng_sim::make_protocol({.dictionary = session.dictionary ? dictionary_ : Bytes{}, .wide_cells = session.wide_cells},
                                              session.lasting)),
          network_({.seed = session.seed, .trace = {&Recorder::record, &recorder_}}),
          server_(world_, *protocol_, network_.server(),
                  {.cell_size = session.wide_cells ? 330.0 : 60.0,
                   .radius_min = session.wide_cells ? 300.0 : 50.0,
                   .message_bytes_max = 700,
                   .hash_ticks = 8,
                   .first_tick = session.first_tick,
                   .compression = session.compression}),
          radius_(session.wide_cells ? 320 : 70), lasting_(session.lasting), userdata_(session.userdata),
          scoped_(session.scoped) {
        recorder_.zstd = session.compression != Compression::never;
        char more[80];
        const int used = std::snprintf(more, sizeof more, ", \"hashes\": true");
        if (recorder_.zstd)
            std::snprintf(more + used, sizeof more - static_cast<std::size_t>(used), ", \"zstd_version\": \"%s\"", ZSTD_versionString());
        golden::print_protocol(protocol_->layout(), static_cast<u32>(server_.state().grid.cell_steps()), protocol_->dictionary(), more);
    }

    /// False if the session is not what it should be: the clients must end up settled and right.
    bool run() {
        if (server_.valid() != Error::none)
            return false;
        for (u32 i = 0; i < 70; ++i)
            spawn();
        connect();
        for (u32 i = 0; i < play_ticks; ++i) {
            if (i == 12)
                connect();
            change();
            tick(i);
        }
        for (u32 i = 0; i < rest_ticks; ++i)
            tick(play_ticks + i);
        bool good = different_ == 0 && equal_ > 0;
        for (const auto& peer : peers_)
            good = good && server_.settled(peer->id);
        return good;
    }

private:
    struct Peer {
        ClientId id;
        World world{{.block_rows = 64}};
        Client client;
        Peer(ClientId i, const Protocol& protocol, LoopbackNetwork& network) : id(i), client(world, protocol, network.client(i)) {}
    };

    void connect() {
        const LinkConfig down{.loss_percent = 8, .delay_us = 60'000, .jitter_us = 70'000, .duplicate_percent = 5};
        const LinkConfig up{.loss_percent = 12, .delay_us = 40'000, .jitter_us = 60'000};
        peers_.push_back(std::make_unique<Peer>(network_.connect(down, up), *protocol_, network_));
    }
    float somewhere() { return static_cast<float>(random_.between(-90, 90)); }
    Entity any() { return all_[random_.below(static_cast<u32>(all_.size()))]; }
    std::string text() {
        static constexpr const char* words[] = {"town ", "old ", "guild ", "of the ", "names ", "long ", "titles ", "entities "};
        std::string out;
        for (u32 left = random_.below(16); left > 0; --left)
            out += words[random_.below(8)];
        return out;
    }
    void spawn() {
        const Entity entity = world_.spawn(Place{somewhere(), somewhere(), random_.between(-5, 5), ++sequence_}, Replicated{});
        if (random_.chance(0.5))
            world_.add<Speed>(entity, Speed{static_cast<float>(random_.range(-9, 9)), static_cast<float>(random_.range(-9, 9))});
        if (random_.chance(0.6))
            world_.add<Vitals>(entity, Vitals{random_.range(-100, 5000), random_.chance(0.5), static_cast<u8>(random_.below(12)),
                                              static_cast<i64>(random_.next()) >> random_.below(60), ++sequence_});
        if (random_.chance(0.4))
            world_.add<Facing>(entity, Facing{static_cast<float>(random_.between(-4, 4)), ++sequence_});
        if (random_.chance(0.3) && !all_.empty())
            world_.add<Link>(entity, Link{any(), random_.chance(0.5) ? any() : Entity{}, ++sequence_});
        if (random_.chance(0.2))
            world_.add<Note>(entity, Note{++sequence_, text()});
        if (lasting_ && random_.chance(0.5))
            world_.add<Lasting>(entity, Lasting{random_.chance(0.3)});
        if (scoped_ && random_.chance(0.5))
            world_.add<ScopedTo>(entity, ScopedTo(Scope::of<Vitals, Note>(), {.any_of = 1}, static_cast<Lifetime>(random_.below(3)))
                                             .also(Scope::of<Facing>(), {.any_of = 2}, static_cast<Lifetime>(random_.below(3))));
        all_.push_back(entity);
    }

    /// Some of everything: motion, values, structure.
    void change() {
        for (std::size_t i = 0; i < all_.size(); i += 3)
            if (const Speed* speed = world_.get<Speed>(all_[i])) {
                Place& place = *world_.mut<Place>(all_[i]);
                place.x += speed->x * 0.05f;
                place.z += speed->z * 0.05f;
            }
        for (u32 left = 3; left > 0; --left) {
            const Entity entity = any();
            switch (random_.below(12)) {
            case 0:
            case 1:
                if (Vitals* vitals = world_.mut<Vitals>(entity))
                    vitals->hp += random_.range(-50, 50), vitals->score += random_.below(1000);
                break;
            case 2:
                if (Facing* facing = world_.mut<Facing>(entity))
                    facing->yaw += static_cast<float>(random_.between(-1, 1));
                break;
            case 3:
                if (Link* link = world_.mut<Link>(entity))
                    link->first = random_.chance(0.2) ? Entity{} : any();
                break;
            case 4:
                if (Note* note = world_.mut<Note>(entity))
                    note->text = text(), ++note->seq;
                break;
            case 5:
                if (Speed* speed = world_.mut<Speed>(entity))
                    speed->x = static_cast<float>(random_.range(-12, 12));
                break;
            case 6:
                if (world_.has<Vitals>(entity)) // the insert counter
                    world_.remove<Vitals>(entity), world_.add<Vitals>(entity, Vitals{7, true, 1, -1, ++sequence_});
                break;
            case 7:
                if (world_.has<Facing>(entity))
                    world_.remove<Facing>(entity);
                else
                    world_.add<Facing>(entity, Facing{1, ++sequence_});
                break;
            case 8:
                if (world_.has<Note>(entity))
                    world_.remove<Note>(entity);
                else
                    world_.add<Note>(entity, Note{++sequence_, text()});
                break;
            case 9:
                world_.mut<Place>(entity)->x = somewhere();
                break;
            case 10:
                world_.destroy(entity);
                std::erase(all_, entity);
                break;
            default:
                spawn();
            }
        }
    }

    void tick(u32 number) {
        now_ += 50'000;
        server_.receive(now_);
        for (const auto& peer : peers_) {
            if (!server_.joined(peer->id))
                continue;
            View view = server_.view(peer->id);
            if (number < play_ticks && number % 6 == 3)
                view.look_at(static_cast<double>(number) - 20, 20.0 * peer->id, {.radius = radius_});
            if (number < play_ticks && number % 9 == 2)
                view.hide(any());
            if (number % 20 == 19)
                view.show(any());
            if (scoped_ && number < play_ticks && number % 7 == 1)
                view.set_layers(random_.below(4));
        }
        if (userdata_ && number % 5 == 0) {
            const std::byte bytes[20] = {static_cast<std::byte>(number), std::byte{255}};
            if (server_.set_userdata(Bytes(bytes).first(number % 20)) != Error::none) // none, 5, 10 or 15
                ++different_;
        }
        const TickReport& report = server_.tick(now_);
        equal_ += report.hashes_equal;
        different_ += report.hashes_different + report.malformed_messages;
        for (const auto& peer : peers_) {
            different_ += peer->client.receive(now_) != Error::none;
            different_ += peer->client.send(now_) != Error::none;
        }
    }

    Random random_;
    Bytes dictionary_;
    Recorder recorder_;
    std::unique_ptr<Protocol> protocol_;
    World world_;
    LoopbackNetwork network_;
    Server server_;
    double radius_;
    bool lasting_, userdata_, scoped_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<Entity> all_;
    u32 sequence_ = 0;
    TimeUs now_ = 0;
    u64 equal_ = 0, different_ = 0;
};

} // namespace

int main(int count, char** values) {
    for (const Session& session : sessions)
        if (count == 2 && std::strcmp(values[1], session.name) == 0) {
            if (Play(session).run())
                return 0;
            std::fprintf(stderr, "record_session: the session did not go well\n");
            return 1;
        }
    std::fputs("usage: record_session packed|packed_wide|zstd|zstd_wide|automatic|lasting|userdata|scopes\n", stderr);
    return 2;
}
