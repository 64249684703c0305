// SPDX-License-Identifier: Apache-2.0
// Several elements of a map at once, with honest counts. Knows descriptors and bytes, not
// JavaScript.
#ifndef FAIRLEAD_BATCH_H_
#define FAIRLEAD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead {

struct Elements {
  int fd;
  size_t key_bytes;
  size_t value_bytes;
};

// How many leading elements are done, and the errno and call that stopped it (0: nothing did).
struct Progress {
  uint32_t count = 0;
  int error = 0;
  const char* op = "";
};

struct Contents {
  std::vector<uint8_t> keys;
  std::vector<uint8_t> values;
};

Progress PutBatch(const Elements& map, const uint8_t* keys, const uint8_t* values, uint32_t count);
Progress DeleteBatch(const Elements& map, const uint8_t* keys, uint32_t count);
// `contents` may come back larger than count elements.
Progress ReadAll(const Elements& map, uint32_t max_entries, Contents* contents);

}  // namespace fairlead

#endif  // FAIRLEAD_BATCH_H_
