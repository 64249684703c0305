// SPDX-License-Identifier: Apache-2.0
// Batches. Every kernel since 5.6 writes the number of elements it took before it reports the error
// of one; when it refuses the whole call (no such command, no batches for this map type) it leaves
// the count as we gave it. So "error and count unchanged" means nothing was done. Batches exist for
// hash, LRU and per-CPU hash and array since 5.6, LPM trie 5.14, per-CPU array 5.13; others go one
// by one.
#include "map/batch.h"

#include <bpf/bpf.h>
#include <errno.h>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace fairlead {
namespace {

constexpr int kKernelNotSupported = 524;
constexpr uint32_t kFirstChunk = 4096;
constexpr uint32_t kLargestChunk = 1 << 24;

bool IsUnsupported(int error) {
  return error == kKernelNotSupported || error == EOPNOTSUPP || error == EINVAL;
}

Progress PutEach(const Elements& map, const uint8_t* keys, const uint8_t* values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (bpf_map_update_elem(map.fd, keys + i * map.key_bytes, values + i * map.value_bytes,
                            BPF_ANY) != 0) {
      return {i, errno, "bpf_map_update_elem"};
    }
  }
  return {count, 0, ""};
}

Progress DeleteEach(const Elements& map, const uint8_t* keys, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < count; i++) {
    if (bpf_map_delete_elem(map.fd, keys + i * map.key_bytes) != 0 && errno != ENOENT) {
      return {i, errno, "bpf_map_delete_elem"};
    }
  }
  return {count, 0, ""};
}

}  // namespace

// A bucket's number for hash tables, a key for all others.
size_t CursorBytes(const Elements& map) {
  return std::max(map.key_bytes, sizeof(uint64_t));
}

namespace {

void Reserve(const Elements& map, Contents* contents, size_t elements) {
  contents->keys.resize(elements * map.key_bytes);
  contents->values.resize(elements * map.value_bytes);
}

// Walking by key starts over when the key it stands on is deleted under it: elements seen before
// are skipped, and a walk that cannot end against such a writer says EAGAIN.
Progress ReadEach(const Elements& map, uint32_t max_entries, Contents* contents) {
  std::unordered_set<std::string> seen;
  std::string key(map.key_bytes, '\0');
  std::vector<uint8_t> value(map.value_bytes);
  const void* previous = nullptr;
  for (uint64_t steps = 0; steps < 4 * (uint64_t{max_entries} + 16); steps++) {
    std::string next(map.key_bytes, '\0');
    if (bpf_map_get_next_key(map.fd, previous, next.data()) != 0) {
      uint32_t count = contents->keys.size() / map.key_bytes;
      if (errno == ENOENT) return {count, 0, ""};
      return {count, errno, "bpf_map_get_next_key"};
    }
    key = next;
    previous = key.data();
    if (seen.contains(key)) continue;
    if (bpf_map_lookup_elem(map.fd, key.data(), value.data()) != 0) {
      if (errno == ENOENT) continue;
      return {0, errno, "bpf_map_lookup_elem"};
    }
    seen.insert(key);
    contents->keys.insert(contents->keys.end(), key.begin(), key.end());
    contents->values.insert(contents->values.end(), value.begin(), value.end());
  }
  return {0, EAGAIN, "bpf_map_get_next_key"};
}

}  // namespace

Progress PutBatch(const Elements& map, const uint8_t* keys, const uint8_t* values, uint32_t count) {
  if (count == 0) return {};
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  uint32_t taken = count;
  if (bpf_map_update_batch(map.fd, keys, values, &taken, &options) == 0) return {count, 0, ""};
  int error = errno;
  if (taken < count) return {taken, error, "bpf_map_update_batch"};
  if (IsUnsupported(error)) return PutEach(map, keys, values, count);
  return {0, error, "bpf_map_update_batch"};
}

// The kernel stops at the first absent key; we count that one as done and continue after it.
Progress DeleteBatch(const Elements& map, const uint8_t* keys, uint32_t count) {
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  uint32_t done = 0;
  while (done < count) {
    uint32_t taken = count - done;
    const uint8_t* rest = keys + done * map.key_bytes;
    if (bpf_map_delete_batch(map.fd, rest, &taken, &options) == 0) return {count, 0, ""};
    int error = errno;
    if (taken == count - done) {
      if (IsUnsupported(error)) return DeleteEach(map, keys, done, count);
      return {done, error, "bpf_map_delete_batch"};
    }
    done += taken;
    if (error != ENOENT) return {done, error, "bpf_map_delete_batch"};
    done++;
  }
  return {count, 0, ""};
}

// The kernel hands out whole hash buckets and says ENOSPC when one is larger than the chunk; ENOENT
// means the end and comes together with the last elements.
Progress ReadBatch(const Elements& map, uint32_t chunk, Cursor* cursor, Contents* contents) {
  if (map.key_bytes == 0) return {0, EOPNOTSUPP, "bpf_map_lookup_batch"};
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  std::vector<uint8_t> next(CursorBytes(map));
  for (;;) {
    uint32_t from = contents->count;
    Reserve(map, contents, size_t{from} + chunk);
    uint32_t taken = chunk;
    int status =
        bpf_map_lookup_batch(map.fd, cursor->at.empty() ? nullptr : cursor->at.data(), next.data(),
                             contents->keys.data() + from * map.key_bytes,
                             contents->values.data() + from * map.value_bytes, &taken, &options);
    int error = status == 0 ? 0 : errno;
    if (error == ENOSPC && chunk < kLargestChunk) {
      chunk *= 2;
      continue;
    }
    if (error != 0 && error != ENOENT) return {0, error, "bpf_map_lookup_batch"};
    contents->count += taken;
    cursor->is_end = error == ENOENT;
    cursor->at.swap(next);
    return {taken, 0, ""};
  }
}

Progress ReadAll(const Elements& map, uint32_t max_entries, Contents* contents) {
  Cursor cursor;
  uint32_t chunk = std::clamp(max_entries, 16u, kFirstChunk);
  while (!cursor.is_end) {
    Progress progress = ReadBatch(map, chunk, &cursor, contents);
    if (progress.error == 0) continue;
    bool is_first = cursor.at.empty();
    if ((is_first && IsUnsupported(progress.error) && map.key_bytes != 0) ||
        progress.error == EINTR) {
      contents->count = 0;
      Reserve(map, contents, 0);
      return ReadEach(map, max_entries, contents);
    }
    return {contents->count, progress.error, progress.op};
  }
  return {contents->count, 0, ""};
}

}  // namespace fairlead
