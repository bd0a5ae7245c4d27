#pragma once
// How the tags of a transport are divided. Private to dist.

namespace rondo::dist {

// Tags below tags_of_collectives belong to collectives (Signature::tag). Then come tags_of_messages
// tags of send and recv, then three more. The last belongs to dist/launch/run.cpp.
constexpr int tags_of_collectives = 16384;
constexpr int tags_of_messages = 16000;
constexpr int tag_of_signatures = tags_of_collectives + tags_of_messages;
/// Synchronizes messages of GPUs (dist/transports/nccl/nccl_messages.h).
constexpr int tag_of_go_aheads = tag_of_signatures + 1;
/// Compares the calls of GPU collectives (dist/collectives/compared.cpp).
constexpr int tag_of_comparisons = tag_of_go_aheads + 1;

}  // namespace rondo::dist
