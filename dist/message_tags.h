#pragma once
// Which tags of a transport are whose. Private to dist.

namespace rondo::dist {

// Below are those of collectives, by sequence number; from here on those of send and recv; the last
// is dist/run.cpp's.
constexpr int tags_of_collectives = 16384;
constexpr int tags_of_messages = 16000;

}  // namespace rondo::dist
