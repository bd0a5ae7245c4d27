// Launches full buckets in index order, up to the first that is not full.
#include "exercise.h"

void bucket_is_full(Buckets& buckets, std::size_t bucket) {
  buckets.is_full[bucket] = true;
  for (; buckets.next < buckets.is_full.size() && buckets.is_full[buckets.next]; ++buckets.next)
    buckets.launch(buckets.next);
}
