// SPDX-License-Identifier: Apache-2.0
// Loads an opened object and turns an error into a Failure with the verifier's message.
#ifndef FAIRLEAD_LOAD_H_
#define FAIRLEAD_LOAD_H_

#include <bpf/libbpf.h>

#include <string>

#include "binding/error.h"

namespace fairlead {

// False with `failure` filled if the kernel refused.
bool LoadObject(bpf_object* object, Failure* failure);

// The lines of a verifier log that say why, without its statistics; at most eight.
std::string UsefulLines(const std::string& log);

}  // namespace fairlead

#endif  // FAIRLEAD_LOAD_H_
