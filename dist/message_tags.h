#pragma once
// Which tags of a transport are whose. Private to dist.

namespace rondo::dist {

// Below are those of collectives, by what they are (Signature::tag); from here on those of send and
// recv; then that of signatures; the last is dist/run.cpp's.
constexpr int tags_of_collectives = 16384;
constexpr int tags_of_messages = 16000;
constexpr int tag_of_signatures = tags_of_collectives + tags_of_messages;

}  // namespace rondo::dist
