// SPDX-License-Identifier: Apache-2.0
// Work in another network namespace, on a thread of its own that ends there: no thread that Node
// uses ever changes its namespace.
#ifndef FAIRLEAD_IN_NETNS_H_
#define FAIRLEAD_IN_NETNS_H_

#include <functional>

#include "binding/args.h"
#include "binding/error.h"
#include "system/fd.h"

namespace fairlead {

// Reads the option `netns` of the object at `index`: a duplicate of that descriptor, invalid if it
// is absent.
Fd ReadNetns(Args& args, size_t index);

// Blocks until `work` has ended, in the namespace of `netns`, or if that is invalid in the
// caller's. False, with `failure` set, if the namespace could not be entered; then `work` did not
// run.
bool RunInNetns(const Fd& netns, const std::function<void()>& work, Failure* failure);

}  // namespace fairlead

#endif  // FAIRLEAD_IN_NETNS_H_
