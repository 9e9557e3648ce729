#pragma once
// The Messenger of one process, and what must come of messages that stay in it: each is heard at the next dispatch, as it was sent, in the
// order of sending. And a game in single player, which has nothing else.
#include "tests/sim/components.hpp"
#include "tests/sim/letters.hpp"
#include "tests/sim/peer.hpp"
#include "tests/sim/tally.hpp"
#include "throng/messenger.hpp"
#include <deque>

namespace throng_sim {

class Post {
public:
    /// `where` it is, for messages. Stays where it is: its handlers refer to it.
    Post(std::string where, throng::u64 seed, const throng::Protocol& protocol, const throng::MessengerConfig& config, Failure& failure,
         Tally& tally);
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;

    /// Handlers of what goes that way and stays here. What comes over a connection must have others.
    std::vector<throng::MessageHandler> handlers(throng::Route way);
    /// A letter that goes that way and stays here was accepted, and heard.
    void stays(throng::Route way, throng::u32 kind, const LetterBody& body);
    void hears(throng::Route way, throng::u32 kind, const LetterBody& body, const throng::Sender& sender);
    /// The local player and its server send something to each other. `named`: entities that letters name.
    void act(std::span<const throng::Entity> named);
    void dispatch();
    /// Layers of the local player.
    throng::u64 layers() const { return config_.local_layers; }

    throng::Messenger messenger;

private:
    struct Letterbox {
        Post* post;
        throng::Route way;
    };
    struct Staying {
        throng::Route way;
        throng::u32 kind;
        LetterBody body;
    };
    LetterBody write(const LetterKind& kind, std::span<const throng::Entity> named);
    void send_up(std::span<const throng::Entity> named);
    void send_down(std::span<const throng::Entity> named);
    void expect(throng::Error error, throng::Error expected, const LetterKind& kind);

    const std::string where_;
    const throng::MessengerConfig config_;
    Random random_;
    Failure& failure_;
    Tally& tally_;
    Letterbox boxes_[2];
    std::deque<Staying> staying_;
    std::size_t due_ = 0; // of the dispatch that runs
    throng::u32 serial_ = 0x8000'0000; // not those of letters over connections
};

/// Single player: no server, no client, one world.
class SinglePlayer {
public:
    SinglePlayer(throng::u64 seed, const throng::Protocol& protocol, const Build& build, Failure& failure, Tally& tally);
    void tick();

private:
    void stroke();

    Random random_;
    const Build& build_;
    Failure& failure_;
    Tally& tally_;
    throng::World world_;
    Post post_;
    std::vector<throng::Entity> entities_; // the last one is dead
    std::vector<Scroll> scrolls_;          // what they are to have
    throng::u32 strokes_ = 0;
};

} // namespace throng_sim
