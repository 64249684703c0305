// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on fairlead, on one network of each kind; test/integration/networks
// has the others. FAIRLEAD_CASES=70 plays only these.
import { USUAL_NETWORKS } from '../../support/fixture/stories/networks.ts';
import { testNetworks } from '../../support/fixture/tests.ts';

testNetworks(USUAL_NETWORKS);
