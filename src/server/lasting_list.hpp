#pragma once
// The Lasting entities that one client may have, seen or not, and the ends among them that it has not acknowledged yet. They left the
// masks of their chunks when they left its sight (R10), so it is told of their end by net id.
#include "throng/array.hpp"
#include "throng/base.hpp"
#include <algorithm>

namespace throng {

class LastingList {
public:
    explicit LastingList(Allocator allocator) : entries_(allocator) {}
    struct Entry {
        NetId id;
        u32 message = 0;         // running number of the one that carries its end, if end_sent
        bool introduced = false; // the client has had it in full
        bool ended = false;
        bool end_sent = false; // and not lost
    };

    /// Good until the list changes. Null: not there.
    Entry* find(NetId id) {
        const u32 at = lower_bound(id);
        return at < entries_.size() && entries_[at].id == id ? &entries_[at] : nullptr;
    }
    const Entry* find(NetId id) const { return const_cast<LastingList*>(this)->find(id); }
    /// Of one that is not there.
    void add(NetId id) {
        const u32 at = lower_bound(id);
        entries_.push_back({});
        for (u32 i = entries_.size() - 1; i > at; --i)
            entries_[i] = entries_[i - 1];
        entries_[at] = {id};
    }
    u32 size() const { return entries_.size(); }
    u64 capacity_bytes() const { return u64(entries_.capacity()) * sizeof(Entry); }

    /// The entity is no more. Returns whether the client has to be told.
    bool end(NetId id) {
        Entry* const entry = find(id);
        if (!entry)
            return false;
        entry->ended = true;
        ++open_ends_;
        ++unsent_ends_;
        return true;
    }
    u32 open_ends() const { return open_ends_; } // not acknowledged
    u32 unsent_ends() const { return unsent_ends_; }
    /// Calls f(id) for the first unsent ends, count_max at most, and takes them for sent in `message`.
    template <class F>
    void send_ends(u32 count_max, u32 message, F&& f) {
        for (Entry& entry : entries_)
            if (entry.ended && !entry.end_sent && count_max > 0) {
                f(entry.id);
                entry.end_sent = true;
                entry.message = message;
                --unsent_ends_;
                --count_max;
            }
    }
    void acked(u32 message) {
        u32 kept = 0;
        for (const Entry& entry : entries_)
            if (!entry.end_sent || entry.message != message)
                entries_[kept++] = entry;
        open_ends_ -= entries_.size() - kept;
        entries_.resize(kept);
    }
    void lost(u32 message) {
        for (Entry& entry : entries_)
            if (entry.end_sent && entry.message == message) {
                entry.end_sent = false;
                ++unsent_ends_;
            }
    }

private:
    u32 lower_bound(NetId id) const {
        const auto below = [](const Entry& entry, NetId wanted) { return entry.id.value < wanted.value; };
        return static_cast<u32>(std::lower_bound(entries_.begin(), entries_.end(), id, below) - entries_.begin());
    }
    Array<Entry> entries_; // ascending by net id
    u32 open_ends_ = 0, unsent_ends_ = 0;
};

} // namespace throng
