#include "src/server/relation_graph.hpp"
#include <utility>

namespace throng {

RelationGraph::RelationGraph(u32 relations, u32 cluster_entities_max, Allocator allocator)
    : relations_(relations), cluster_entities_max_(cluster_entities_max), nodes_(allocator), edges_(allocator), clusters_(allocator),
      free_clusters_(allocator), changed_(allocator), left_(allocator), members_(allocator), reached_(allocator) {}

void RelationGraph::grow(u32 slot) {
    if (slot < nodes_.size())
        return;
    nodes_.resize(slot + 1);
    edges_.resize((slot + 1) * relations_);
}

// ---------------------------------------------------------------------------------------------------- links
void RelationGraph::add(u32 slot, u64 entity_id) {
    grow(slot);
    nodes_[slot].entity_id = entity_id;
    for (u32 edge = nodes_[slot].first_in; edge != none; edge = edges_[edge].next_in)
        if (edges_[edge].target_id == entity_id)
            connect(edge / relations_, slot);
}

void RelationGraph::remove(u32 slot) {
    if (slot >= nodes_.size() || !nodes_[slot].entity_id)
        return;
    for (u32 r = 0; r < relations_; ++r)
        detach(slot * relations_ + r);
    nodes_[slot].entity_id = 0;
    if (nodes_[slot].cluster != none)
        leave(slot);
}

void RelationGraph::link(u32 slot, u32 relation, Entity target) {
    const u32 number = slot * relations_ + relation;
    if (edges_[number].target_id == target.entity_id)
        return;
    detach(number);
    if (!target.entity_id)
        return;
    grow(target.entity_idx);
    Edge& edge = edges_[number];
    edge.target_id = target.entity_id;
    edge.target = target.entity_idx;
    u32& first = nodes_[edge.target].first_in;
    edge.next_in = first;
    edge.previous_in = none;
    if (first != none)
        edges_[first].previous_in = number;
    first = number;
    if (live(edge))
        connect(slot, edge.target);
}

/// The edge leads nowhere any more.
void RelationGraph::detach(u32 number) {
    Edge& edge = edges_[number];
    if (!edge.target_id)
        return;
    const u32 cluster = nodes_[number / relations_].cluster;
    if (cluster != none && live(edge)) {
        clusters_[cluster].broken = true;
        list(cluster);
    }
    (edge.previous_in == none ? nodes_[edge.target].first_in : edges_[edge.previous_in].next_in) = edge.next_in;
    if (edge.next_in != none)
        edges_[edge.next_in].previous_in = edge.previous_in;
    edge = {};
}

bool RelationGraph::leads_on(u32 slot) const {
    for (u32 r = 0; r < relations_; ++r)
        if (const Edge& edge = edges_[slot * relations_ + r]; live(edge) && edge.target != slot)
            return true;
    return false;
}

// ---------------------------------------------------------------------------------------------------- clusters
u32 RelationGraph::make_cluster() {
    u32 cluster = clusters_.size();
    if (free_clusters_.size()) {
        cluster = free_clusters_[free_clusters_.size() - 1];
        free_clusters_.resize(free_clusters_.size() - 1);
        clusters_[cluster] = {};
    } else
        clusters_.push_back({});
    list(cluster);
    return cluster;
}

void RelationGraph::list(u32 cluster) {
    if (std::exchange(clusters_[cluster].listed, true))
        return;
    changed_.push_back(cluster);
}

void RelationGraph::join(u32 number, u32 slot) {
    Cluster& cluster = clusters_[number];
    Node& node = nodes_[slot];
    node.cluster = number;
    if (cluster.count++ == 0) {
        cluster.first = node.next = node.previous = slot;
        return;
    }
    Node& first = nodes_[cluster.first];
    node.next = cluster.first;
    node.previous = first.previous;
    nodes_[first.previous].next = slot;
    first.previous = slot;
}

/// Of an entity that is no more.
void RelationGraph::leave(u32 slot) {
    Node& node = nodes_[slot];
    Cluster& cluster = clusters_[node.cluster];
    list(node.cluster);
    cluster.broken = true;
    --cluster.count;
    nodes_[node.previous].next = node.next;
    nodes_[node.next].previous = node.previous;
    if (cluster.first == slot)
        cluster.first = cluster.count ? node.next : none;
    if (cluster.root == slot)
        cluster.root = none;
    if (cluster.count == 0)
        set_apart(cluster, 0);
    node.cluster = node.next = node.previous = none;
}

void RelationGraph::connect(u32 a, u32 b) {
    u32 into = nodes_[a].cluster, from = nodes_[b].cluster;
    if (a == b || (into == from && into != none))
        return;
    if (into == none && from == none)
        into = make_cluster();
    else if (into == none || (from != none && clusters_[from].count > clusters_[into].count))
        std::swap(into, from);
    // Those that come to a cluster that is too large already go apart like it; all else there stays as it is.
    const bool was_too_large = too_large(into);
    const auto take = [&](u32 slot) {
        join(into, slot);
        if (was_too_large) {
            left_.push_back(slot);
            set_apart(clusters_[into], clusters_[into].apart + 1);
        }
    };
    if (from == none) {
        for (const u32 slot : {a, b})
            if (nodes_[slot].cluster == none)
                take(slot);
    } else {
        Cluster& old = clusters_[from];
        u32 slot = old.first;
        for (u32 left = old.count; left > 0; --left) {
            const u32 next = nodes_[slot].next;
            take(slot);
            slot = next;
        }
        clusters_[into].broken |= clusters_[from].broken;
        if (clusters_[into].broken)
            list(into);
        set_apart(clusters_[from], 0);
        const bool listed = clusters_[from].listed;
        clusters_[from] = {};
        clusters_[from].listed = listed;
        list(from);
    }
    if (!was_too_large)
        list(into);
}

/// The cluster's connected parts become clusters of their own; the first one keeps the number.
void RelationGraph::search(u32 number) {
    members_.clear();
    each_member(number, [&](u32 slot) { members_.push_back(slot); });
    set_apart(clusters_[number], 0);
    clusters_[number] = {};
    clusters_[number].listed = true;
    for (const u32 slot : members_) {
        nodes_[slot].cluster = none;
        nodes_[slot].next = nodes_[slot].previous = none;
    }
    ++search_;
    bool kept = false;
    for (const u32 start : members_) {
        if (nodes_[start].seen == search_)
            continue;
        reached_.clear();
        const auto reach = [&](u32 slot) {
            if (std::exchange(nodes_[slot].seen, search_) != search_)
                reached_.push_back(slot);
        };
        reach(start);
        for (u32 i = 0; i < reached_.size(); ++i) {
            const u32 slot = reached_[i];
            for (u32 r = 0; r < relations_; ++r)
                if (const Edge& edge = edges_[slot * relations_ + r]; live(edge))
                    reach(edge.target);
            for (u32 edge = nodes_[slot].first_in; edge != none; edge = edges_[edge].next_in)
                if (live(edges_[edge]))
                    reach(edge / relations_);
        }
        if (reached_.size() == 1) {
            left_.push_back(start);
            continue;
        }
        const u32 part = kept ? make_cluster() : number;
        kept = true;
        for (const u32 slot : reached_)
            join(part, slot);
    }
}

void RelationGraph::settle() {
    for (u32 i = 0; i < changed_.size(); ++i) // a search makes more, which are whole
        if (std::exchange(clusters_[changed_[i]].broken, false) && clusters_[changed_[i]].count)
            search(changed_[i]);
}

void RelationGraph::clear_changes() {
    for (const u32 cluster : changed_) {
        clusters_[cluster].listed = false;
        if (clusters_[cluster].count == 0)
            free_clusters_.push_back(cluster);
    }
    changed_.clear();
    left_.clear();
}

void RelationGraph::set_root(u32 number, u32 slot, u32 apart) {
    clusters_[number].root = slot;
    set_apart(clusters_[number], apart);
}

u64 RelationGraph::memory_bytes() const {
    return u64(nodes_.capacity()) * sizeof(Node) + u64(edges_.capacity()) * sizeof(Edge) + u64(clusters_.capacity()) * sizeof(Cluster) +
           4u * (u64(free_clusters_.capacity()) + changed_.capacity() + left_.capacity() + members_.capacity() + reached_.capacity());
}

} // namespace throng
