#pragma once
// One client of the simulator. It stands between the backend and the client half, and after each message checks what the client shows.
#include "tests/sim/random.hpp"
#include "tests/sim/truth.hpp"
#include "throng/loopback.hpp"
#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace throng_sim {

/// The first thing that went wrong in a run.
struct Failure {
    std::string text;
    bool happened() const { return !text.empty(); }
    void report(const char* pattern, ...) __attribute__((format(printf, 2, 3)));
};

/// What the server attaches to the messages of a tick.
struct Userdata {
    explicit Userdata(throng::Tick tick) : size(4 + tick % 30) {
        for (throng::u32 i = 0; i < size; ++i)
            data[i] = static_cast<std::byte>(i < 4 ? tick >> 8 * i : i);
    }
    throng::Bytes bytes() const { return throng::Bytes(data).first(size); }
    std::byte data[40] = {};
    throng::u32 size;
};

/// What the game has said that a client may see: the simulation's own list, layers and values for filters.
struct SightRules {
    bool listed_only = false;
    std::set<throng::u64> listed; // entity ids
    throng::u64 layers = 0;
    std::optional<throng::u32> side, height; // its values for filters (tests/sim/filters.hpp)
    bool shows(throng::Entity entity) const { return (listed.count(entity.entity_id) != 0) == listed_only; }
    void set(throng::Entity entity, bool shown) {
        if (shown == listed_only)
            listed.insert(entity.entity_id);
        else
            listed.erase(entity.entity_id);
    }
    void begin(bool only) {
        listed_only = only;
        listed.clear();
    }
};

/// What a client says in its hello.
struct Ticket {
    explicit Ticket(throng::u32 name) : size(name % 3 == 0 ? 0 : name % 3 == 1 ? 5 : throng::hello_data_bytes_max) {
        for (throng::u32 i = 0; i < size; ++i)
            data[i] = static_cast<std::byte>(name + i * 7);
    }
    throng::Bytes bytes() const { return throng::Bytes(data).first(size); }
    std::byte data[throng::hello_data_bytes_max] = {};
    throng::u32 size;
};

class Peer final : public throng::ClientBackend, throng::ClientBackendSink {
    throng::ClientBackend& inner_; // before the client, which asks it for its limits

public:
    /// `other`: the build that it has instead of the server's, or null; `told`: what both have.
    Peer(const throng::Protocol& protocol, const Build* other, const Build& told, throng::ClientBackend& inner, throng::ClientId connection,
         throng::u32 name, const throng::ClientConfig& config, const Truth& truth, Failure& failure, bool is_dirty, bool is_limited);

    throng::World world;
    throng::Client client;
    throng::ClientId id;               // at the server
    const throng::ClientId connection; // of the network; the same, unless there is a multiplexer
    const throng::Protocol& protocol;
    const bool other_build; // not the server's
    const throng::u32 name; // never used again, unlike id
    const bool dirty;       // its links damage what they carry: nothing it shows is checked
    const bool limited;     // its limits are small: it may lack things, but what it shows is right
    bool refused = false;   // the server is full, or its host said no
    bool closed = false;    // by the server; its slot may be another's by now
    bool tracing = false;
    bool joined = false;
    throng::Tick joined_at = 0; // the first tick of which it is told as one that has joined
    bool seated = false;     // the server knows of the connection, and has not turned it away
    bool dismissed = false; // disconnect_after_flush was called
    throng::Tick dismissed_at = 0;
    bool requires_more = false; // by its rules
    throng::u64 required_seen = 0;
    throng::u64 bundles_seen = 0;
    throng::u64 parents_seen = 0;
    bool cut = false;        // the server has turned it away
    bool news_heard = false; // set by each message with sections or letters
    // its view, for the promise
    bool has_view = false;
    throng::Entity focus;
    double at[2] = {0, 0};
    double radius = 60;
    SightRules may_see;

    /// What the server means it to see as of the tick.
    void record_visible(throng::Tick tick, const throng::Server& server);
    throng::u64 checks() const { return checks_; }
    struct Sight {
        throng::NetId net;
        throng::u32 components; // bits
    };
    /// What that said, or null.
    const Sight* sight(throng::Tick tick, throng::NetId net) const;

    /// Makes an entity of the client's own, with some components that the server has too.
    void make_ahead(throng::SpawnSignature signature, Random& random);
    /// One of those that the server has not taken ends; all of them.
    void end_ahead(Random& random);
    void end_all_ahead();
    /// Destroys an entity that the server shows; null: none was found.
    throng::NetId end_shown(Random& random);
    /// Whether the client has done that, and it has not come back since.
    bool has_ended(throng::NetId net) const { return ended_.count(net) != 0; }
    bool has_ended_id(throng::u64 entity_id) const {
        return std::any_of(ended_.begin(), ended_.end(), [&](const auto& one) { return truth_.entity_id_of(one.first) == entity_id; });
    }
    const std::map<throng::NetId, throng::Tick>& ended() const { return ended_; }
    throng::u64 came_back = 0; // of those
    /// How many entities the server has not taken.
    throng::u64 ahead() const { return ahead_made_ - client.stats().adoptions; }

    // ClientBackend
    void poll(throng::TimeUs now, throng::ClientBackendSink& sink) override;
    throng::SendResult send(throng::Channel channel, throng::Bytes message) override { return inner_.send(channel, message); }
    void flush(throng::TimeUs now) override { inner_.flush(now); }
    throng::u32 message_bytes_max(throng::Channel channel) const override { return inner_.message_bytes_max(channel); }

private:
    void on_connect() override { sink_->on_connect(); }
    void on_disconnect() override {
        closed = true;
        sink_->on_disconnect();
    }
    void on_message(throng::Channel channel, throng::Bytes message) override;
    throng::ClientConfig listening(throng::ClientConfig config);
    static void on_userdata(void* context, throng::Tick tick, throng::Bytes data);
    void check(throng::Tick tick);
    void check_resource();
    void check_required(throng::Entity entity, throng::NetId net);
    void check_return(throng::NetId net, throng::Tick tick);
    void check_ahead(throng::Entity entity);
    void check_adoption(throng::Entity entity, throng::NetId net);
    void check_entity(throng::Entity entity, throng::NetId net, throng::Tick tick);
    void check_cluster(throng::Entity entity, throng::NetId net, throng::Tick tick);
    void check_target(const char* what, throng::NetId net, throng::Tick confirmed, throng::NetId named, throng::u64 named_id,
                      throng::Entity shown);
    void check_link(throng::NetId net, throng::Tick confirmed, const EntityTruth& truth, throng::u32 index, throng::Entity shown);

    throng::ClientBackendSink* sink_ = nullptr;
    const Build told_; // what its build and the server's have
    const Truth& truth_;
    Failure& failure_;
    std::map<throng::Tick, std::vector<Sight>> visible_; // sorted by net id, by tick
    struct Seen {
        throng::u32 sequences[sequenced_components] = {};
        throng::Tick removed_at = 0;
        throng::Tick confirmed = 0;
        bool removed = false;
        bool shown = false;
        bool now = false;
        bool lasting = false;
        bool frozen = false;
        throng::u32 kept = 0; // components, as of when the entity was not frozen
        Fingerprint last;     // as it was shown after the last message
        Fingerprint own;      // of one that the client had made: as it made it
    };
    std::map<throng::NetId, Seen> seen_;
    throng::Tick newest_ = 0; // of all messages with sections
    bool any_newest_ = false;
    std::map<throng::NetId, throng::Tick> ended_; // by the game; as of when they were shown
    throng::u64 checks_ = 0;
    struct Ahead {
        throng::Entity entity;
        Fingerprint fingerprint;
    };
    std::vector<Ahead> ahead_;   // not taken yet; of a dirty client: made
    throng::u64 ahead_made_ = 0; // without those that the game has ended
};

} // namespace throng_sim
