// SPDX-License-Identifier: Apache-2.0
// What the thread and JavaScript say to each other, in the machine's byte order.
#ifndef FAIRLEAD_RECORDS_H_
#define FAIRLEAD_RECORDS_H_

#include <cstdint>

namespace fairlead {

struct Event {
  enum Kind : uint8_t { kAsked = 1, kEnded = 2, kShed = 3 };
  uint8_t kind;
  uint8_t family;  // 4 or 6
  uint16_t port;   // of the client
  uint32_t connection;
  uint32_t listener;
  uint32_t error;  // of the connection to the server, if it has come to none
  uint8_t address[16];
};
static_assert(sizeof(Event) == 32);

struct Answer {
  enum Kind : uint8_t { kRefuse = 0, kForward = 1 };
  static constexpr size_t kMostFirst = 56;
  uint8_t kind;
  uint8_t family;
  uint16_t port;
  uint32_t connection;
  uint8_t address[16];
  // Bytes that the server gets before the client's.
  uint8_t first_size;
  uint8_t unused[7];
  uint8_t first[kMostFirst];
};
static_assert(sizeof(Answer) == 88);

}  // namespace fairlead

#endif  // FAIRLEAD_RECORDS_H_
