// SPDX-License-Identifier: Apache-2.0
// Loads an object on a thread of libuv's pool: verifying the programs of one takes 80 to 170 ms,
// which the event loop must not wait for.
#ifndef FAIRLEAD_LOAD_ASYNC_H_
#define FAIRLEAD_LOAD_ASYNC_H_

#include <napi.h>

#include "object/object.h"

namespace fairlead {

// The promise of load(): the caller has marked the object as being loaded.
Napi::Promise QueueLoad(BpfObject& object);

}  // namespace fairlead

#endif  // FAIRLEAD_LOAD_ASYNC_H_
