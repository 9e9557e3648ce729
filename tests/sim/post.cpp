#include "tests/sim/post.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {
namespace {

MessengerConfig with_layers(MessengerConfig config, u64 seed) {
    config.local_layers = Random(seed ^ 0x1a7e).next() & 0x8000'0000'0000'0007u;
    return config;
}

} // namespace

Post::Post(std::string where, u64 seed, const Protocol& protocol, const MessengerConfig& config, Failure& failure, Tally& tally)
    : messenger(protocol, with_layers(config, seed)), where_(std::move(where)), config_(with_layers(config, seed)), random_(seed ^ 0x9057),
      failure_(failure), tally_(tally), boxes_{{this, Route::to_client}, {this, Route::to_server}} {}

std::vector<MessageHandler> Post::handlers(Route way) {
    Letterbox* const box = &boxes_[way == Route::to_server];
    return letter_handlers(way, box, [](auto kind, Letterbox& at, const LetterBody& body, const Sender& sender) {
        at.post->hears(at.way, kind, body, sender);
    });
}

void Post::stays(Route way, u32 kind, const LetterBody& body) {
    staying_.push_back({way, kind, body});
}

void Post::hears(Route way, u32 kind, const LetterBody& body, const Sender& sender) {
    if (!sender.is_local() || sender.client != local_player)
        failure_.report("%s: a letter that stayed there comes from elsewhere", where_.c_str());
    if (due_ == 0)
        return failure_.report("%s: a letter of the kind \"%s\" is heard that nobody sent by then", where_.c_str(), letter_kind(kind).name);
    const Staying& expected = staying_.front();
    const LetterBody& sent = expected.body;
    if (expected.way != way || expected.kind != kind || sent.serial != body.serial || sent.number != body.number ||
        sent.share != body.share || sent.urgent != body.urgent || sent.first != body.first || sent.second != body.second ||
        sent.text != body.text)
        failure_.report("%s: letter %u of the kind \"%s\" is heard, instead of letter %u of the kind \"%s\"", where_.c_str(), body.serial,
                        letter_kind(kind).name, sent.serial, letter_kind(expected.kind).name);
    staying_.pop_front();
    --due_;
    tally_.add(Happening::letter_stayed);
    if (config_.local_player && way == Route::to_server && random_.chance(0.3))
        send_down({}); // heard at the next dispatch
}

void Post::dispatch() {
    const std::size_t due = due_ = staying_.size();
    const u32 handled = messenger.dispatch();
    if (handled != due || due_ != 0)
        failure_.report("%s: %u letters that stayed there are heard, not %zu", where_.c_str(), handled, due);
    due_ = 0;
}

LetterBody Post::write(const LetterKind& kind, std::span<const Entity> named) {
    LetterBody body;
    body.serial = ++serial_;
    body.number = static_cast<i64>(random_.next());
    body.share = random_.range(-1000, 1000) / 100.0;
    body.urgent = random_.chance(0.5);
    const u32 most = text_bytes_max(kind);
    body.text.assign(random_.chance(0.05) ? most + random_.below(3) : random_.below(std::min(most, 60u)), 'p');
    if (!kind.plain && !named.empty()) {
        body.first = named[random_.below(static_cast<u32>(named.size()))];
        body.second = named[random_.below(static_cast<u32>(named.size()))];
    }
    return body;
}

void Post::expect(Error error, Error expected, const LetterKind& kind) {
    if (error != expected)
        failure_.report("%s: sending a letter of the kind \"%s\" returns %s, not %s", where_.c_str(), kind.name, to_string(error),
                        to_string(expected));
}

void Post::send_up(std::span<const Entity> named) {
    const u32 number = random_.below(letter_kinds);
    const LetterKind& kind = letter_kind(number);
    const LetterBody body = write(kind, named);
    const bool shared = random_.chance(0.3); // where the player is local it is no other
    const Error error = by_kind(number, [&]<u32 k>(std::integral_constant<u32, k>) {
        return shared ? messenger.shared(letter_of<k>(body)) : messenger.to_server(letter_of<k>(body));
    });
    expect(error,
           !kind.goes(Route::to_server)              ? Error::bad_value
           : body.text.size() > text_bytes_max(kind) ? Error::too_large
                                                     : Error::none,
           kind);
    if (error == Error::none)
        stays(Route::to_server, number, body);
}

/// To the local player alone; in single player also to whom there is not.
void Post::send_down(std::span<const Entity> named) {
    const u32 number = random_.below(letter_kinds);
    const LetterKind& kind = letter_kind(number);
    const LetterBody body = write(kind, named);
    const ClientId nobody = 3;
    const u64 layers = random_.next() & 0x8000'0000'0000'0007u;
    const std::pair<To, bool> single[] = {{To::client(local_player), true},
                                          {To::client(nobody), false},
                                          {To::all(), true},
                                          {To::all_except(nobody), true},
                                          {To::all_except(local_player), false},
                                          {To::layers(layers), (layers & config_.local_layers) != 0},
                                          {To::group(1), true},
                                          {To::observers(body.first), true}};
    const u32 chosen = config_.server ? 0 : random_.below(static_cast<u32>(std::size(single)));
    const To& to = single[chosen].first;
    const bool reaches = single[chosen].second;
    const Error error = by_kind(number, [&]<u32 k>(std::integral_constant<u32, k>) { //
        return messenger.to_clients(to, letter_of<k>(body));
    });
    Error expected = Error::none;
    if (!kind.goes(Route::to_client))
        expected = Error::bad_value;
    else if (!reaches)
        expected = to.kind == To::Kind::client ? Error::no_connection : Error::none;
    else if (body.text.size() > text_bytes_max(kind))
        expected = Error::too_large;
    expect(error, expected, kind);
    if (error == Error::none && reaches)
        stays(Route::to_client, number, body);
}

void Post::act(std::span<const Entity> named) {
    for (u32 left = random_.below(4); left > 0; --left)
        random_.chance(0.5) ? send_up(named) : send_down(named);
}

SinglePlayer::SinglePlayer(u64 seed, const Protocol& protocol, const Build& build, Failure& failure, Tally& tally)
    : random_(seed ^ 0x519e), build_(build), failure_(failure), tally_(tally), world_({.block_rows = 64}),
      post_("single player", seed ^ 0x519f, protocol, {.local_player = true, .world = &world_}, failure, tally) {
    if (post_.messenger.set_server_handlers(post_.handlers(Route::to_server)) != Error::none ||
        post_.messenger.set_client_handlers(post_.handlers(Route::to_client)) != Error::none)
        failure_.report("single player does not take the handlers");
    for (u32 i = 0; i < 4; ++i) { // with a Scroll, without, dead
        entities_.push_back(world_.create());
        scrolls_.push_back({});
        if (i < 2)
            world_.add<Scroll>(entities_[i]);
    }
    world_.destroy(entities_.back());
}

void SinglePlayer::tick() {
    post_.act(entities_);
    stroke();
    if (random_.chance(0.8))
        post_.dispatch();
}

/// A diff is done at once, to the world's own component or resource.
void SinglePlayer::stroke() {
    const Stroke stroke{++strokes_, random_.below(30), static_cast<u8>('a' + random_.below(26))};
    const auto draw = [&](Scroll& scroll) {
        scroll.seq = stroke.seq;
        if (stroke.at < scroll.text.size())
            scroll.text[stroke.at] = static_cast<char>(stroke.letter);
        else if (scroll.text.size() < scroll_bytes_max)
            scroll.text.push_back(static_cast<char>(stroke.letter));
    };
    const u32 i = random_.below(static_cast<u32>(entities_.size()) + 1);
    if (i == entities_.size()) {
        const Scroll* const there = world_.resources().get<Scroll>();
        const bool can = there && build_.has(Piece::world_scroll);
        Scroll expected = there ? *there : Scroll{};
        const Error error = post_.messenger.apply_resource_diff<Scroll>(stroke);
        if (error != (can ? Error::none : Error::bad_value))
            failure_.report("single player: a diff of the resource returns %s", to_string(error));
        if (can)
            draw(expected);
        if (there && !(*world_.resources().get<Scroll>() == expected))
            failure_.report("single player: a diff of the resource makes something else of it");
        if (!there)
            world_.resources().emplace<Scroll>();
        return;
    }
    const bool can = world_.has<Scroll>(entities_[i]) && build_.has(Piece::scroll);
    const Error error = post_.messenger.apply_diff<Scroll>(entities_[i], stroke);
    if (error != (can ? Error::none : Error::bad_value))
        failure_.report("single player: a diff of entity %u returns %s", i, to_string(error));
    if (can)
        draw(scrolls_[i]);
    if (const Scroll* const there = world_.get<Scroll>(entities_[i]); there && !(*there == scrolls_[i]))
        failure_.report("single player: a diff makes something else of entity %u", i);
    tally_.add(Happening::diff_alone, can);
}

} // namespace throng_sim
