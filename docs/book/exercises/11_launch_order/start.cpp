// Launches each bucket as soon as it is full. Ranks whose buckets become full in different orders
// wait for each other.
#include "exercise.h"

void bucket_is_full(Buckets& buckets, std::size_t bucket) {
  buckets.is_full[bucket] = true;
  buckets.launch(bucket);
}
