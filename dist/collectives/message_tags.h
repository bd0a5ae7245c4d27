#pragma once
// Which tags of a transport are whose. Private to dist.

namespace rondo::dist {

// Below are those of collectives, by what they are (Signature::tag); from here on those of send and
// recv; then three more; the last is dist/launch/run.cpp's.
constexpr int tags_of_collectives = 16384;
constexpr int tags_of_messages = 16000;
constexpr int tag_of_signatures = tags_of_collectives + tags_of_messages;
/// With which GPUs' messages are asked for (dist/transports/nccl/nccl_messages.h).
constexpr int tag_of_go_aheads = tag_of_signatures + 1;
/// Of what GPUs' collectives are (dist/collectives/compared.cpp).
constexpr int tag_of_comparisons = tag_of_go_aheads + 1;

}  // namespace rondo::dist
