#pragma once
// Singletons: values of which there is one per host object (a world, a server), looked up by type. EnTT calls this a context,
// bevy resources.
#include "throng/array.hpp"
#include "throng/entity.hpp"
#include <type_traits>

namespace throng {
namespace detail {
/// Number of the resource type in this process, `unassigned` before its first use; apart from component ids.
template <class T>
inline u16 assigned_resource_id = unassigned;
inline const u16* resource_types[type_numbers_max] = {};
template <class T>
u32 known_resource_id() {
    return __atomic_load_n(&assigned_resource_id<T>, __ATOMIC_RELAXED);
}
} // namespace detail

/// At most one value of each type. Addresses hold until the value is replaced or removed. Move only. Thread rule: get from any
/// number of threads; everything else alone. Look-up: O(1), an array access; no allocation but in emplace.
class Resources {
public:
    /// Allocates nothing. The allocator's context must outlive this.
    explicit Resources(Allocator allocator = default_allocator()) : entries_(allocator) {}
    Resources(Resources&&) noexcept = default;
    Resources& operator=(Resources&& other) noexcept {
        if (this != &other) {
            clear();
            entries_ = std::move(other.entries_);
        }
        return *this;
    }
    /// In the reverse order of the types' first use in the process.
    ~Resources() { clear(); }

    /// Makes the value of T, in place of an earlier one, which ends after the new one is built. If the constructor or the
    /// allocator throws, nothing has changed. Counts as a change.
    template <class T, class... A>
    T& emplace(A&&... args) {
        static_assert(std::is_same_v<T, std::remove_cvref_t<T>> && std::is_nothrow_destructible_v<T>);
        const u32 id = id_of<T>();
        if (entries_.size() <= id)
            entries_.resize(id + 1);
        struct Fresh {
            const Allocator& allocator;
            void* memory;
            ~Fresh() { allocator.free(memory, sizeof(T), alignof(T)); }
        } fresh{entries_.allocator(), entries_.allocator().allocate(sizeof(T), alignof(T))};
        T* value;
        if constexpr (std::is_constructible_v<T, A...>)
            value = ::new (fresh.memory) T(std::forward<A>(args)...);
        else
            value = ::new (fresh.memory) T{std::forward<A>(args)...};
        fresh.memory = nullptr;
        end(entries_[id]); // looked up again: the constructor may have made another resource
        Entry& entry = entries_[id];
        entry.value = value;
        entry.destroy = [](void* memory) { static_cast<T*>(memory)->~T(); };
        entry.bytes = sizeof(T);
        entry.alignment = alignof(T);
        ++entry.version;
        return *value;
    }
    /// Null if there is none.
    template <class T>
    const T* get() const {
        const u32 id = detail::known_resource_id<T>();
        return id < entries_.size() ? static_cast<const T*>(entries_[id].value) : nullptr;
    }
    /// The same, writable; counts as a change. Not for immutable types (is_immutable): emplace replaces these.
    template <class T>
        requires(!requires { typename T::immutable; })
    T* mut() {
        const u32 id = detail::known_resource_id<T>();
        if (id >= entries_.size() || !entries_[id].value)
            return nullptr;
        ++entries_[id].version;
        return static_cast<T*>(entries_[id].value);
    }
    template <class T>
    bool has() const {
        return get<T>() != nullptr;
    }
    /// False if there was none.
    template <class T>
    bool remove() {
        const u32 id = detail::known_resource_id<T>();
        if (id >= entries_.size() || !entries_[id].value)
            return false;
        ++entries_[id].version;
        end(entries_[id]);
        return true;
    }
    /// How often T was made, removed or written so far, modulo 2^32; a reader that keeps the last one knows of changes.
    template <class T>
    u32 version() const {
        const u32 id = detail::known_resource_id<T>();
        return id < entries_.size() ? entries_[id].version : 0;
    }
    /// Of the table and of the values, without what these own themselves.
    u64 memory_bytes() const {
        u64 bytes = u64(entries_.capacity()) * sizeof(Entry);
        for (const Entry& entry : entries_)
            bytes += entry.bytes;
        return bytes;
    }
    /// Ends all values.
    void clear() {
        for (u32 i = entries_.size(); i > 0; --i)
            if (entries_[i - 1].value) {
                ++entries_[i - 1].version;
                end(entries_[i - 1]);
            }
    }

private:
    struct Entry {
        void* value = nullptr;
        void (*destroy)(void*) = nullptr;
        std::size_t bytes = 0;
        std::size_t alignment = 0;
        u32 version = 0;
    };
    template <class T>
    static u32 id_of() {
        u16 id = __atomic_load_n(&detail::assigned_resource_id<T>, __ATOMIC_RELAXED);
        if (id == detail::unassigned) [[unlikely]]
            id = detail::assign_type_number(detail::assigned_resource_id<T>, detail::resource_types, detail::type_numbers_max);
        return id;
    }
    void end(Entry& entry) {
        const Entry old = std::exchange(entry, Entry{.version = entry.version});
        if (old.value) {
            old.destroy(old.value); // may make resources, and so move the entries
            entries_.allocator().free(old.value, old.bytes, old.alignment);
        }
    }
    Array<Entry> entries_; // by resource number
};

} // namespace throng
