#pragma once
// What the listings have around them: a server and a client that play some ticks.
#include "throng/client.hpp"
#include "throng/server.hpp"
#include <doctest/doctest.h>

/// Ticks of 50 ms from `now` on.
inline void play(throng::Server& server, throng::Client& client, throng::TimeUs& now, int ticks) {
    for (int i = 0; i < ticks; ++i) {
        now += 50'000;
        server.receive(now);
        server.tick(now);
        CHECK(client.receive(now) == throng::Error::none);
        CHECK(client.send(now) == throng::Error::none);
    }
}
