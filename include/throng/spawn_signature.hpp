#pragma once
// Entities that a client's game makes before the server's arrive, such as its own shots, and that become one with these.
//
//     protocol.component<SpawnSignature>("signature").field(&SpawnSignature::hash).audience(Audience::owner); // on both sides
//     const SpawnSignature signature = SpawnSignature::of(shot_salt, player, input_number);
//     seen.spawn(Position{at}, Predicted{}, signature);                         // client: at once
//     world.spawn(Position{at}, signature, OwnedBy{client}, Replicated{});      // server: when the input has arrived
#include "throng/entity.hpp"
#include <bit>
#include <string_view>
#include <type_traits>

namespace throng {
namespace detail {
u64 signature_of_words(u64 salt, const u64* words, std::size_t count);
u64 signature_word(const void* bytes, std::size_t count);

template <class T>
u64 signature_value(const T& value) {
    static_assert(!std::is_same_v<T, Entity>, "an entity has another handle in each world: use what both sides know it by");
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        const std::string_view text = value;
        return signature_word(text.data(), text.size());
    } else if constexpr (std::is_floating_point_v<T>) {
        return std::bit_cast<u64>(static_cast<double>(value) + 0.0); // one zero
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
        return static_cast<u64>(value);
    } else {
        static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>,
                      "a value is a number, enum, text, or a struct of whole numbers without gaps");
        return signature_word(&value, sizeof value);
    }
}
} // namespace detail

/// Component by which a client knows the server's entity for one that its game has made already: when an entity with a signature is shown
/// for the first time, and the client's world has an entity of its own with the same one, that entity becomes the server's. It keeps the
/// components that are not replicated; replicated ones are written over, added or taken away, as the server has them. From then on it is an
/// entity like others: it has the net id, on_spawn is called, and it ends when the server's ends. Without such an entity a new one is made.
///
/// Works in protocols that register it, once, as a component with the one field `hash`. It is sent like any component, so with an audience
/// only those clients adopt that see it. One that comes to an entity that is shown already does nothing; nor do entities that the client
/// has from the server, so a signature may be used again at once, also for a replacement in the same tick. Of several entities with one
/// signature the one that was made first is taken (ClientStats::signature_collisions). Those that the server never answers are the game's
/// to end. To find them, each section of a message with new entities that have one looks at all signatures of the client's world, also of
/// those that are the server's already: an entity may lose its signature, on the server, once clients know it.
struct SpawnSignature {
    u64 hash = 0; // equal for both; 0: none

    /// From a salt, one for each kind of entity, and values that both sides know: numbers, enums, texts, structs of whole numbers without
    /// gaps. Equal on all platforms for equal values (XXH3-64; an integer counts by its value, whatever its type), and never 0.
    template <class... Ts>
    static SpawnSignature of(u64 salt, const Ts&... values) {
        const u64 words[sizeof...(Ts) + 1] = {detail::signature_value(values)..., 0};
        return {detail::signature_of_words(salt, words, sizeof...(Ts))};
    }
    friend constexpr bool operator==(const SpawnSignature&, const SpawnSignature&) = default;
};

} // namespace throng
