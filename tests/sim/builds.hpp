#pragma once
// Builds of the simulator's protocol: what one of them lacks or registers otherwise. A server and a client of two of them show what both
// have; the rest is absent, or has its default.
#include "throng/base.hpp"

namespace throng_sim {

/// Components, numbered as in Fingerprint, then a second name of one, then fields. Some are in every build.
enum class Piece : throng::u8 {
    place,
    speed,
    vitals,
    facing,
    link,
    note,
    lasting,
    purse,
    tactics,
    rumour,
    diary,
    mood,
    birth,
    heat,
    weather,
    bond,
    scroll,
    world_scroll,
    signature,
    badge,
    ammo,
    barrel,
    child_of,
    exact_mood,
    place_y,
    speed_z,
    vitals_angry,
    vitals_state,
    vitals_score,
    facing_yaw,
    link_second,
    birth_value,
    weather_wind,
    heat_seq,
    purse_gold,
    count
};
inline constexpr throng::u32 piece_count = static_cast<throng::u32>(Piece::count);

constexpr throng::u64 bit(Piece piece) {
    return throng::u64(1) << static_cast<throng::u32>(piece);
}

struct Build {
    throng::u64 lacks = 0; // pieces
    bool named = true;     // fields have names: else only the last ones could be lacking
    bool reversed = false; // components and fields are registered in the other order
    bool letters = true;   // typed messages
    bool coarse = false;   // other ranges, sizes and audiences: the server's count, so it is for clients

    constexpr bool has(Piece piece) const { return (lacks & bit(piece)) == 0; }
    /// Whether Ammo and Barrel are a bundle.
    constexpr bool bundled() const { return has(Piece::ammo) && has(Piece::barrel); }
};

/// What a client of `ours` is told of by a server of `theirs`.
constexpr Build both(const Build& theirs, const Build& ours) {
    return {theirs.lacks | ours.lacks};
}

/// The part of the server's build that such a client shows as others do: of a component with two names, and of a bundle,
/// all or nothing.
constexpr Build common(const Build& theirs, const Build& ours) {
    constexpr throng::u64 names = bit(Piece::mood) | bit(Piece::exact_mood);
    Build out = both(theirs, ours);
    if ((out.lacks ^ theirs.lacks) & names)
        out.lacks |= names;
    if (theirs.bundled() && !out.bundled()) // one part alone goes by a rule that such a build does not have
        out.lacks |= bit(Piece::ammo) | bit(Piece::barrel);
    return out;
}

/// The components that a client may be told of, as bits. One of two names is enough.
constexpr throng::u32 component_bits(const Build& told) {
    const throng::u32 named = ~static_cast<throng::u32>(told.lacks) & ((1u << static_cast<throng::u32>(Piece::exact_mood)) - 1);
    return named | (told.has(Piece::exact_mood) ? 1u << static_cast<throng::u32>(Piece::mood) : 0);
}

} // namespace throng_sim
