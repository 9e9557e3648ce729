#pragma once
// What must hold on a client at all times. Reads the truth and the out-of-band fields; nothing else does.
#include "tests/model/client.hpp"

#include <map>
#include <tuple>

namespace model {

/// What each client should have seen in each tick.
class Truth {
public:
    explicit Truth(int clients) : worlds_(clients) {}
    void record(int client, Tick tick, SeenWorld world) {
        worlds_[client].resize(tick + 1);
        worlds_[client][tick] = std::move(world);
    }
    const SeenWorld& at(int client, Tick tick) const { return worlds_[client][tick]; }

private:
    std::vector<std::vector<SeenWorld>> worlds_;
};

/// The checks on one client. Each throws a Violation.
class Checks {
public:
    Checks(Context context, const Truth& truth) : context_(context), truth_(truth) {}
    /// After the client has looked at a message. `before` is what it showed until then.
    void after_message(const Client& client, const Message& message, const SeenWorld& before);

private:
    void nothing_hidden_was_sent(const Client& client, const Message& message) const;
    void what_is_kept_rests(const Client& client, const SeenWorld& before, const SeenWorld& shown) const;
    void no_older_value(const Client& client, const SeenWorld& shown);
    void entities_appear_whole(const Client& client, const Message& message, const SeenWorld& before, const SeenWorld& shown) const;
    void nobody_is_resurrected(const Client& client, const Message& message, const SeenWorld& before, const SeenWorld& shown);
    void settled_tick_is_true(const Client& client, const Message& message, const SeenWorld& shown) const;

    Context context_;
    const Truth& truth_;
    std::map<std::tuple<NetId, int, int>, int> newest_sequence_; // (entity, scope, component) shown so far
    std::map<NetId, Tick> removed_at_;                           // tick of the message that took the entity away
};

/// The part of a violation's text that says what kind it is.
std::string kind_of(const std::string& why);

} // namespace model
