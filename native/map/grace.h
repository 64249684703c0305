// SPDX-License-Identifier: Apache-2.0
// The private maps that waitGracePeriod writes to: made at its first call, freed with the
// environment.
#ifndef FAIRLEAD_GRACE_H_
#define FAIRLEAD_GRACE_H_

#include "system/fd.h"

namespace fairlead {

struct GraceMaps {
  Fd inner;
  Fd outer;
};

}  // namespace fairlead

#endif  // FAIRLEAD_GRACE_H_
