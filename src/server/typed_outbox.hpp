#pragma once
// Typed messages of the server on their way out. send_message writes here, on the host's thread: the body is encoded at once, and once.
// The tick resolves references and targets (after structure and interest), completes the items, and each client's worker reads them in
// assemble. Everything is cleared after the tick and keeps its memory.
#include "src/events/typed_codec.hpp"
#include "throng/typed.hpp"

namespace throng {

struct OutMessage {
    u64 sequence = 0; // running number: clients that came later do not get it
    const MessageLayout* layout = nullptr;
    To::Kind target = To::Kind::all;
    u32 who = 0;                  // client, group, or first of `excepted`
    u32 who_count = 0;            // of `excepted`
    u64 any_of = 0;               // To::layers
    Entity observed;              // To::observers
    u32 first_reference = 0;      // in `references`
    u32 body = 0, body_bytes = 0; // in `bodies`
    u32 item = 0, item_bytes = 0; // in `items`, set by the tick
    u32 next = 0;                 // the next one about the same chunk; no_message: none
    bool departed = false;        // its observers were found before structure
};
inline constexpr u32 no_message = 0xffffffff;

/// An entity that a message names: as a net id where it had one when the message was sent.
struct OutReference {
    Entity entity;
    NetId id;
};

struct TypedOutbox {
    explicit TypedOutbox(Allocator a)
        : messages(a), references(a), bodies(a), items(a), excepted(a), broad(a), chunk_heads(a), observed_chunks(a), groups(a) {}

    Array<OutMessage> messages; // in the order of sending
    Array<OutReference> references;
    Array<std::byte> bodies;
    Array<std::byte> items;
    Array<ClientId> excepted; // sorted within a message
    u64 sequence = 0;         // of the next message

    // Made by the tick, read by assemble.
    Array<u32> broad;           // messages to all, or all but some: each client looks at each
    Array<u32> chunk_heads;     // [chunk]: first message about an entity in it, or no_message
    Array<u32> observed_chunks; // that have one
    bool any_observed = false;

    struct Group {
        explicit Group(Allocator a) : members(a) {}
        Array<ClientId> members; // sorted
        bool used = false;
    };
    Array<Group> groups;

    void clear() {
        messages.clear();
        references.clear();
        bodies.clear();
        items.clear();
        excepted.clear();
        broad.clear();
        for (const u32 chunk : observed_chunks)
            chunk_heads[chunk] = no_message;
        observed_chunks.clear();
        any_observed = false;
    }
    u32 bytes() const { return bodies.size() + messages.size() * static_cast<u32>(sizeof(OutMessage)); }
    std::span<const ClientId> excepted_of(const OutMessage& message) const { return {excepted.data() + message.who, message.who_count}; }
};

/// Whether there is such a group, and the client is in it.
bool has_member(const TypedOutbox& outbox, GroupId group, ClientId client);
/// Takes a client that has left out of all groups.
void leave_groups(TypedOutbox& outbox, ClientId client);

} // namespace throng
