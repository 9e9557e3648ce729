#pragma once
// Connected clients by the backend's network ids. Written when a connection begins or ends, on the calling thread.
#include "throng/array.hpp"
#include "throng/base.hpp"
#include <algorithm>

namespace throng {

class NetworkIds {
public:
    explicit NetworkIds(Allocator allocator) : entries_(allocator) {}

    /// The newest of those with this id.
    void add(u64 network_id, ClientId client) {
        const auto at = after(network_id) - entries_.begin();
        entries_.push_back({network_id, client});
        std::rotate(entries_.begin() + at, entries_.end() - 1, entries_.end());
    }
    void remove(u64 network_id, ClientId client) {
        for (Entry* e = after(network_id); e != entries_.begin() && (e - 1)->network_id == network_id; --e)
            if ((e - 1)->client == client) {
                std::rotate(e - 1, e, entries_.end());
                return entries_.pop_back();
            }
    }
    /// The newest with this id; `none` without one.
    ClientId find(u64 network_id, ClientId none) const {
        const Entry* const e = after(network_id);
        return e != entries_.begin() && (e - 1)->network_id == network_id ? (e - 1)->client : none;
    }

private:
    struct Entry {
        u64 network_id;
        ClientId client;
    };
    /// Behind the last one with this id.
    Entry* after(u64 network_id) { return const_cast<Entry*>(std::as_const(*this).after(network_id)); }
    const Entry* after(u64 network_id) const {
        return std::upper_bound(entries_.begin(), entries_.end(), network_id, [](u64 id, const Entry& e) { return id < e.network_id; });
    }
    Array<Entry> entries_; // ascending by network id, then by age
};

} // namespace throng
