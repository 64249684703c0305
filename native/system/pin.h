// SPDX-License-Identifier: Apache-2.0
// Pins in a bpf file system: creating one, and opening one with the expected type.
#ifndef FAIRLEAD_PIN_H_
#define FAIRLEAD_PIN_H_

#include <napi.h>

#include <string>

#include "system/fd.h"

namespace fairlead {

enum class PinKind { kMap, kProgram, kLink };

Napi::Value PinObject(Napi::Env env, int fd, const std::string& path);
// Invalid, with the error thrown, if there is no such pin or it holds something else.
Fd OpenPin(Napi::Env env, const std::string& path, PinKind kind);

}  // namespace fairlead

#endif  // FAIRLEAD_PIN_H_
