#pragma once
// A growing array whose memory comes from an Allocator. Everything the library owns in a list is one of these, so that a
// host sees every byte of it. Move only: a copy of a large array should be visible in the code that wants one (append).
#include "throng/assert.hpp"
#include "throng/memory.hpp"
#include <cstring>
#include <new>
#include <type_traits>

namespace throng {

/// True when moving a T to a new address and forgetting the old one is a copy of its bytes. Specialise it for types of
/// your own that hold memory but no pointer into themselves.
template <class T>
inline constexpr bool is_trivially_relocatable = std::is_trivially_copyable_v<T>;

/// Grows by a factor of two; never shrinks by itself. Pointers and references last until the next growth. If the
/// allocator or an element's constructor throws, the array is as it was (resize and append keep the elements that were built).
/// Thread rule: as a plain value. Elements must be nothrow move constructible.
template <class T>
class Array {
public:
    using value_type = T;
    static_assert(std::is_nothrow_move_constructible_v<T> || is_trivially_relocatable<T>);

    /// Allocates nothing.
    explicit Array(Allocator allocator = default_allocator()) noexcept : allocator_(allocator) {}
    Array(Array&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)), allocator_(other.allocator_) {}
    /// Takes the memory together with the allocator it came from.
    Array& operator=(Array&& other) noexcept {
        if (this != &other) {
            release();
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            capacity_ = std::exchange(other.capacity_, 0);
            allocator_ = other.allocator_;
        }
        return *this;
    }
    ~Array() { release(); }

    /// At most 2^32 - 1 elements.
    u32 size() const { return static_cast<u32>(size_); }
    u32 capacity() const { return static_cast<u32>(capacity_); }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](std::size_t i) {
        THRONG_ASSERT_SLOW(i < size_);
        return data_[i];
    }
    const T& operator[](std::size_t i) const {
        THRONG_ASSERT_SLOW(i < size_);
        return data_[i];
    }
    T& front() { return (*this)[0]; }
    const T& front() const { return (*this)[0]; }
    T& back() { return (*this)[size_ - 1]; }
    const T& back() const { return (*this)[size_ - 1]; }
    const Allocator& allocator() const { return allocator_; }

    /// Room for `count` elements in all, exactly; no-op when there is.
    void reserve(std::size_t count) {
        if (count > capacity_)
            grow_to(count);
    }
    /// Room for `extra` more elements; grows geometrically, so that repeated calls stay linear.
    void reserve_extra(std::size_t extra) {
        if (size_ + extra > capacity_)
            grow_to(grown(size_ + extra));
    }
    void push_back(const T& value) { emplace_back(value); }
    void push_back(T&& value) { emplace_back(std::move(value)); }
    /// Arguments may refer to elements of this array.
    template <class... A>
    T& emplace_back(A&&... args) {
        if (size_ == capacity_) [[unlikely]]
            return emplace_grown(std::forward<A>(args)...);
        T* place = construct(data_ + size_, std::forward<A>(args)...);
        ++size_;
        return *place;
    }
    void pop_back() {
        THRONG_ASSERT_SLOW(size_ > 0);
        data_[--size_].~T();
    }
    /// New elements are value-initialised. Capacity grows geometrically and is kept.
    void resize(std::size_t count) {
        if (count > size_)
            reserve_extra(count - size_);
        if constexpr (std::is_trivially_default_constructible_v<T> && std::is_trivially_copyable_v<T>) {
            if (count > size_)
                fill_value_initialised(count);
        } else {
            for (; size_ < count; ++size_)
                ::new (static_cast<void*>(data_ + size_)) T();
        }
        truncate(count);
    }
    /// New elements are copies of `value`, which may be an element of this array.
    void resize(std::size_t count, const T& value) {
        if (count > size_) {
            T copy(value);
            reserve(count);
            for (; size_ < count; ++size_)
                ::new (static_cast<void*>(data_ + size_)) T(copy);
        }
        truncate(count);
    }
    /// Copies `count` elements to the end. `values` must not point into this array.
    void append(const T* values, std::size_t count) {
        reserve_extra(count);
        if constexpr (std::is_trivially_copyable_v<T>) {
            if (count != 0)
                std::memcpy(static_cast<void*>(data_ + size_), values, count * sizeof(T));
            size_ += count;
        } else {
            for (std::size_t i = 0; i < count; ++i, ++size_)
                ::new (static_cast<void*>(data_ + size_)) T(values[i]);
        }
    }
    /// Removes element i by moving the last one into its place.
    void erase_unordered(std::size_t i) {
        THRONG_ASSERT_SLOW(i < size_);
        if (i + 1 != size_)
            data_[i] = std::move(data_[size_ - 1]);
        pop_back();
    }
    /// Destroys the elements and keeps the memory.
    void clear() { truncate(0); }
    /// Destroys the elements and gives the memory back.
    void release() {
        truncate(0);
        allocator_.free(data_, capacity_ * sizeof(T), alignof(T));
        data_ = nullptr;
        capacity_ = 0;
    }

private:
    template <class... A>
    static T* construct(T* place, A&&... args) {
        if constexpr (std::is_constructible_v<T, A...>)
            return ::new (static_cast<void*>(place)) T(std::forward<A>(args)...);
        else
            return ::new (static_cast<void*>(place)) T{std::forward<A>(args)...};
    }
    std::size_t grown(std::size_t at_least) const {
        const std::size_t floor = sizeof(T) >= 16 ? 4 : 64 / sizeof(T);
        const std::size_t doubled = capacity_ * 2 > floor ? capacity_ * 2 : floor;
        return doubled > at_least ? doubled : at_least;
    }
    void fill_value_initialised(std::size_t count) {
        const T zero{};
        for (; size_ < count; ++size_)
            data_[size_] = zero;
    }
    void truncate(std::size_t count) {
        if constexpr (std::is_trivially_destructible_v<T>) {
            if (size_ > count)
                size_ = count;
        } else {
            while (size_ > count)
                data_[--size_].~T();
        }
    }
    void adopt(T* fresh, std::size_t capacity) {
        if constexpr (is_trivially_relocatable<T>) {
            if (size_ != 0)
                std::memcpy(static_cast<void*>(fresh), static_cast<const void*>(data_), size_ * sizeof(T));
        } else {
            for (std::size_t i = 0; i < size_; ++i) {
                ::new (static_cast<void*>(fresh + i)) T(std::move(data_[i]));
                data_[i].~T();
            }
        }
        allocator_.free(data_, capacity_ * sizeof(T), alignof(T));
        data_ = fresh;
        capacity_ = capacity;
    }
    void grow_to(std::size_t capacity) {
        adopt(static_cast<T*>(allocator_.allocate(capacity * sizeof(T), alignof(T))), capacity);
    }
    template <class... A>
    T& emplace_grown(A&&... args) {
        // The new element is built first, because the arguments may live in the old memory.
        const std::size_t capacity = grown(size_ + 1);
        struct Fresh {
            const Allocator& allocator;
            std::size_t bytes;
            void* memory;
            ~Fresh() { allocator.free(memory, bytes, alignof(T)); }
        } fresh{allocator_, capacity * sizeof(T), allocator_.allocate(capacity * sizeof(T), alignof(T))};
        T* const memory = static_cast<T*>(fresh.memory);
        T* const place = construct(memory + size_, std::forward<A>(args)...);
        fresh.memory = nullptr;
        adopt(memory, capacity);
        ++size_;
        return *place;
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
    Allocator allocator_;
};

/// Bytes move as they are: an Array holds no pointer into itself.
template <class T>
inline constexpr bool is_trivially_relocatable<Array<T>> = true;

} // namespace throng
