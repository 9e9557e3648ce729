#pragma once
// Who is connected with whom by related fields (R12): an undirected graph of replicated entities, and its connected components, the
// clusters. Kept as it changes: a link joins two clusters at once, the smaller into the larger; a cluster that has lost a link or an entity
// is searched through anew, once a tick. Knows slots and ids, and nothing of lanes. Written by the structure stage alone.
#include "throng/array.hpp"
#include "throng/entity.hpp"

namespace throng {

class RelationGraph {
public:
    static constexpr u32 none = 0xffffffffu;
    /// relations: related fields of the protocol. Without any, no other call is made.
    RelationGraph(u32 relations, u32 cluster_entities_max, Allocator allocator);

    bool used() const { return relations_ != 0; }
    /// The entity in this slot is replicated from now on. Links to it that are there already count.
    void add(u32 slot, u64 entity_id);
    /// It is no longer; its links are gone. Nothing if it was not there.
    void remove(u32 slot);
    /// Where the entity's related field number `relation` leads; null: nowhere. The target need not be replicated, or be any more.
    void link(u32 slot, u32 relation, Entity target);

    /// The entity's cluster; none: it is alone.
    u32 cluster_of(u32 slot) const { return slot < nodes_.size() ? nodes_[slot].cluster : none; }
    u32 count(u32 cluster) const { return clusters_[cluster].count; }
    bool too_large(u32 cluster) const { return clusters_[cluster].count > cluster_entities_max_; }
    /// Whether a related field of the entity leads to another one that is replicated.
    bool leads_on(u32 slot) const;
    template <class F>
    void each_member(u32 cluster, F&& f) const {
        u32 slot = clusters_[cluster].first;
        for (u32 left = clusters_[cluster].count; left > 0; --left, slot = nodes_[slot].next)
            f(slot);
    }

    /// Puts the cluster on the list of those that have changed.
    void list(u32 cluster);
    /// Searches through what has lost something. Then changed() and left() are those of the calls since clear_changes().
    void settle();
    /// Clusters that are new or other ones, or were listed. Some may have count 0: they are no more.
    const Array<u32>& changed() const { return changed_; }
    /// Entities that were in a cluster and are in none now, or in one that is too large. May name one twice, or one that has gone.
    const Array<u32>& left() const { return left_; }
    void clear_changes();

    /// Who decides for the cluster, and how many do not go with it. Kept here for whoever places clusters.
    u32 root(u32 cluster) const { return clusters_[cluster].root; }
    u32 apart_of(u32 cluster) const { return clusters_[cluster].apart; }
    void set_root(u32 cluster, u32 slot, u32 apart);
    /// Sum of `apart` over all clusters.
    u32 apart() const { return apart_; }
    u64 memory_bytes() const;

private:
    struct Node {
        u64 entity_id = 0; // 0: not replicated
        u32 cluster = none;
        u32 next = none, previous = none; // the ring of its cluster
        u32 first_in = none;              // edges that lead to this slot, whatever stood in it when they were made
        u32 seen = 0;                     // search that found it last
    };
    struct Edge {          // [slot * relations + relation]
        u64 target_id = 0; // 0: none
        u32 target = none;
        u32 next_in = none, previous_in = none;
    };
    struct Cluster {
        u32 first = none;
        u32 count = 0;
        u32 root = none;
        u32 apart = 0;
        bool listed = false;
        bool broken = false;
    };

    bool live(const Edge& edge) const { return edge.target_id != 0 && nodes_[edge.target].entity_id == edge.target_id; }
    void grow(u32 slot);
    void detach(u32 edge);
    void connect(u32 a, u32 b);
    u32 make_cluster();
    void join(u32 cluster, u32 slot);
    void leave(u32 slot);
    void search(u32 cluster);
    void set_apart(Cluster& cluster, u32 count) {
        apart_ = apart_ - cluster.apart + count;
        cluster.apart = count;
    }

    u32 relations_;
    u32 cluster_entities_max_;
    u32 apart_ = 0;
    u32 search_ = 0;
    Array<Node> nodes_; // by slot
    Array<Edge> edges_;
    Array<Cluster> clusters_;
    Array<u32> free_clusters_;
    Array<u32> changed_, left_;
    Array<u32> members_, reached_; // of a search
};

} // namespace throng
