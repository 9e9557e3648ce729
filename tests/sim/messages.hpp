#pragma once
// Typed messages at random, both ways, and what must come of each. What is sent is written down, and in the tick who is to get it, by what
// the simulation itself knows of clients, groups, layers and sights; each arrival is compared with that.
#include "tests/sim/letters.hpp"
#include "tests/sim/peer.hpp"
#include "tests/sim/plan.hpp"
#include "tests/sim/post.hpp"
#include "tests/sim/tally.hpp"
#include <memory>
#include <optional>

namespace throng_sim {

class Messages {
public:
    Messages(const Plan& plan, const throng::Protocol& protocol, throng::World& world, throng::Server& server, const Truth& truth,
             const std::vector<std::unique_ptr<Peer>>& peers, Failure& failure, Tally& tally);
    /// Hears what the client gets.
    void listen(Peer& peer);
    /// Something happens: messages, members of groups. Without `faults` a seed that does so at all does it always.
    void act(bool faults);
    /// What stayed in its process is heard. The local player sends something.
    void dispatch(bool faults);
    /// Directly before Server::tick, and after it when clients' sights of the tick are recorded.
    void before_tick();
    void after_tick(const throng::TickReport& report);
    /// Before the client leaves.
    void count(const Peer& peer);
    /// Whether clients have all that they must have, and the server all of theirs. If not, and `report`, that is a failure.
    bool complete(bool report);
    bool tracing = false;

private:
    struct Sent { // a letter
        throng::u32 kind = 0;
        bool to_server = false;
        LetterBody body;
        throng::NetId ids[2];  // of what it names; none: it reads as null
        throng::Tick tick = 0; // in which it went; to the server: the last one before
        throng::u32 from = 0;  // name of the client
        // to clients
        throng::To::Kind target = throng::To::Kind::all;
        std::vector<throng::u32> among; // names of those that it can go to at all
        std::vector<throng::u32> excepted;
        throng::u32 client = 0;
        std::size_t group = 0;
        throng::u64 layers = 0;
        throng::Entity observed;
        throng::NetId observed_before;
        bool ended = false;
        std::vector<throng::u32> receivers;
    };
    /// What has arrived over one connection in one direction.
    struct Inbox {
        std::vector<throng::u8> times; // by serial
        throng::u32 newest[letter_kinds] = {}, newest_ordered = 0;
        throng::u64 count[letter_kinds] = {}, due[letter_kinds] = {}; // arrived, sent
    };
    struct Ear {
        Messages* messages;
        Peer* peer;
        Inbox at_client, at_server;
        std::unique_ptr<Post> post; // null: no Messenger
    };
    struct Group {
        throng::GroupId id = 0;
        std::vector<throng::u32> members; // names
        bool local = false;               // and the local player
        bool dropped = false;
    };
    enum class Sees : throng::u8 { no, yes, unknown };

    void send_to_clients(throng::u32 kind, const Peer* answered);
    void send_to_server(Peer& peer, throng::u32 kind);
    void change_group();
    void include_local(Sent& letter, throng::To& to, std::vector<throng::ClientId>& excepted);
    bool reaches_local(const Sent& letter, const throng::To& to) const;
    void address(Sent& letter, throng::To& to, std::vector<throng::ClientId>& excepted, throng::Error& expected);
    void write(const LetterKind& kind, LetterBody& body, bool from_server);
    throng::Entity any_entity(Random& random) const;
    bool expect(const char* what, throng::u32 kind, throng::Error error, throng::Error expected, bool limit_possible);
    Sees sees(const Peer& peer, throng::Entity entity) const;
    void resolve(Sent& letter);
    const Sent* take(const char* where, Inbox& inbox, Peer& peer, throng::u32 kind, const LetterBody& body, bool to_server);
    void at_client(Ear& ear, throng::u32 kind, const LetterBody& body, const throng::Sender& sender);
    void at_server(throng::u32 kind, const LetterBody& body, const throng::Sender& sender);
    bool excused_at_client(const Sent& letter, Peer& peer, bool behind, throng::u64& dropped) const;
    bool excused_at_server(const Sent& letter, const Peer& peer) const;
    Ear& ear(const Peer& peer) { return *ears_[peer.name]; }

    const Plan& plan_;
    Random random_; // of its own: seeds keep what they drew without it
    throng::World& world_;
    throng::Server& server_;
    const Truth& truth_;
    const std::vector<std::unique_ptr<Peer>>& peers_;
    Failure& failure_;
    Tally& tally_;
    std::vector<Sent> letters_; // by serial - 1
    std::size_t unresolved_ = 0;
    std::vector<std::unique_ptr<Ear>> ears_; // by name
    std::vector<Group> groups_;              // dropped ones stay
    throng::u64 dropped_up_ = 0;             // by the server, because they were too many
    bool answering_ = false;
    Random set_ups_;             // the same, of what Messengers do
    std::unique_ptr<Post> post_; // of a listen server
    std::optional<SinglePlayer> alone_;
};

} // namespace throng_sim
