// SPDX-License-Identifier: Apache-2.0
// A request to the kernel off the event loop: sending one may already walk a large table, and each
// datagram of a dump is put together while the previous one is received.
#ifndef FAIRLEAD_EXCHANGE_H_
#define FAIRLEAD_EXCHANGE_H_

#include <napi.h>

#include <vector>

#include "system/fd.h"

namespace fairlead {

// Sends `message`, unless it is empty, then receives one datagram. Resolves with its bytes, or with
// undefined if there is none.
Napi::Promise QueueExchange(Napi::Env env, Fd socket, std::vector<uint8_t> message);

}  // namespace fairlead

#endif  // FAIRLEAD_EXCHANGE_H_
