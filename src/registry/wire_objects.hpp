#pragma once
// Objects of the types that converted components travel as: as many as a chunk has lanes, side by side.
#include "src/registry/layout.hpp"
#include "throng/array.hpp"

namespace throng {

class WireObjects {
public:
    explicit WireObjects(Allocator allocator) : memory_(allocator) {}

    /// Room for all components of the protocol; takes memory if one is converted.
    void reserve(const Protocol& protocol) {
        u32 bytes = 0;
        for (const ComponentInfo& info : protocol.components())
            bytes = info.form.size_bytes > bytes ? info.form.size_bytes : bytes;
        if (bytes > 0)
            memory_.resize(bytes * lane_count + wire_form_alignment_max);
    }
    /// Converts components. The objects are good until the next call of either function; `objects` gets where they are.
    void write(const WireForm& form, const std::byte* const* components, u32 count, std::byte** objects) {
        place(form, count, objects);
        for (u32 i = 0; i < count; ++i)
            form.write(form.to_wire, components[i], objects[i]);
    }
    /// Objects made from nothing, to be filled.
    void make(const WireForm& form, u32 count, std::byte** objects) {
        place(form, count, objects);
        for (u32 i = 0; i < count; ++i)
            form.make(objects[i]);
    }

private:
    void place(const WireForm& form, u32 count, std::byte** objects) {
        const std::size_t begin = reinterpret_cast<std::size_t>(memory_.data());
        std::byte* const first = memory_.data() + ((~begin + 1) & (wire_form_alignment_max - 1));
        for (u32 i = 0; i < count; ++i)
            objects[i] = first + i * form.size_bytes;
    }
    Array<std::byte> memory_;
};

} // namespace throng
