#include "src/registry/op_log.hpp"
#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>

using namespace throng;

namespace {
using Ops = std::vector<std::pair<Tick, std::string>>;

Bytes bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

void append(OpLog& log, Tick tick, Tick before, const std::vector<std::string>& ops, u32 history = 8, u32 bytes_max = 100) {
    std::vector<Bytes> list;
    for (const std::string& op : ops)
        list.push_back(bytes_of(op));
    log.append(tick, before, list, history, bytes_max);
}

/// What a section of tick `now` carries of the log, read back; nothing if it does not reach back to the baseline.
Ops after(const OpLog& log, Tick baseline, Tick now) {
    const u32 bytes = log.size_after(baseline, now);
    if (bytes == 0)
        return {};
    std::byte out[1000];
    BitWriter writer(out);
    log.write_after(baseline, now, writer);
    CHECK(writer.finish() == bytes);
    OpReader reader({out, bytes}, now - baseline);
    Ops ops;
    Bytes op;
    for (u32 age = 0; reader.next(op, age);)
        ops.emplace_back(now - age, std::string(reinterpret_cast<const char*>(op.data()), op.size()));
    CHECK(reader.error() == Error::none);
    return ops;
}
} // namespace

TEST_SUITE("registry") {
    TEST_CASE("an op log gives what came after a baseline, or nothing") {
        OpLog log(default_allocator());
        CHECK(after(log, 5, 10).empty());
        const Tick wrap = 0xfffffffe; // ticks wrap
        append(log, wrap, wrap - 6, {"a", ""});
        append(log, wrap + 3, wrap, {"b"});
        const Ops all{{wrap, "a"}, {wrap, ""}, {wrap + 3, "b"}};
        CHECK(after(log, wrap - 7, wrap + 4).empty()); // before what the first op was done to
        CHECK(after(log, wrap - 6, wrap + 4) == all);
        CHECK(after(log, wrap - 1, wrap + 4) == all);
        CHECK(after(log, wrap, wrap + 4) == Ops{{wrap + 3, "b"}});
        CHECK(after(log, wrap + 2, wrap + 300) == Ops{{wrap + 3, "b"}});
        CHECK(after(log, wrap + 3, wrap + 4).empty());
        log.clear();
        CHECK(after(log, wrap, wrap + 4).empty());
        append(log, wrap + 9, wrap + 5, {"c"});
        CHECK(after(log, wrap + 4, wrap + 9).empty());
        CHECK(after(log, wrap + 5, wrap + 9) == Ops{{wrap + 9, "c"}});
    }

    TEST_CASE("an op log keeps so many ops and bytes, whole ticks") {
        OpLog log(default_allocator());
        append(log, 10, 9, {"a", "b"}, 3);
        append(log, 11, 10, {"c"}, 3);
        append(log, 12, 11, {"d"}, 3); // both of tick 10 go
        CHECK(log.count() == 2);
        CHECK(after(log, 9, 12).empty());
        CHECK(after(log, 10, 12) == Ops{{11, "c"}, {12, "d"}});
        append(log, 13, 12, {"0123456789"}, 3, 11);
        CHECK(after(log, 10, 13).empty());
        CHECK(after(log, 11, 13) == Ops{{12, "d"}, {13, "0123456789"}});
        append(log, 14, 13, {"0123456789ab"}, 3, 11); // more than it may keep at all
        CHECK(log.count() == 0);
        CHECK(after(log, 13, 14).empty());
        append(log, 15, 14, {"1", "2", "3", "4"}, 3);
        CHECK(log.count() == 0);
        append(log, 16, 15, {"e"}, 3);
        CHECK(after(log, 15, 16) == Ops{{16, "e"}});
    }

    TEST_CASE("an op log takes no memory once it has what it needs") {
        u64 allocations = 0;
        OpLog log(
            {[](void* context, std::size_t bytes, std::size_t alignment) {
                 ++*static_cast<u64*>(context);
                 return default_allocator().allocate(bytes, alignment);
             },
             [](void*, void* memory, std::size_t bytes, std::size_t alignment) { default_allocator().free(memory, bytes, alignment); },
             &allocations});
        u64 warm = 0;
        for (Tick tick = 1; tick < 5000; ++tick) {
            append(log, tick, tick - 1, {std::string(tick % 7, 'x'), "y"}, 64, 200);
            if (tick == 1000)
                warm = allocations;
            if (tick % 97 == 0) {
                const Ops last{
                    {tick - 1, std::string((tick - 1) % 7, 'x')}, {tick - 1, "y"}, {tick, std::string(tick % 7, 'x')}, {tick, "y"}};
                CHECK(after(log, tick - 2, tick) == last);
            }
        }
        CHECK(allocations == warm);
    }

    TEST_CASE("ops of a section are read whatever they are") {
        const auto error_of = [](std::vector<u8> in, u32 age) {
            OpReader reader(std::as_bytes(std::span(in)), age);
            Bytes op;
            for (u32 at = 0; reader.next(op, at);) {
            }
            return reader.error();
        };
        CHECK(error_of({0, 0}, 1) == Error::none); // one op of no bytes, of the section's tick
        CHECK(error_of({3, 2, 9, 1, 4, 8, 8}, 4) == Error::none);
        CHECK(error_of({3, 3, 9, 0, 1, 0}, 4) == Error::none); // two of tick 3
        CHECK(error_of({4, 0}, 4) == Error::bad_value);        // not after the baseline
        CHECK(error_of({2, 0, 2, 0}, 4) == Error::bad_value);  // not after the one before
        CHECK(error_of({2, 0, 3, 0}, 4) == Error::bad_value);
        CHECK(error_of({2}, 4) == Error::truncated);
        CHECK(error_of({2, 1}, 4) == Error::truncated); // another one should follow
        CHECK(error_of({2, 6, 1, 1}, 4) == Error::truncated);
        CHECK(error_of({0x82, 0, 0}, 4) == Error::bad_value); // a superfluous byte
        u64 state = 7;
        for (int i = 0; i < 20000; ++i) { // any bytes end
            std::vector<u8> in;
            for (int b = 0; b < i % 12; ++b)
                in.push_back(static_cast<u8>((state = state * 6364136223846793005u + 1) >> 61));
            (void)error_of(in, static_cast<u32>(i % 9 + 1));
        }
    }
}
