// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on fairlead, on the networks that test/integration/packets leaves out.
// FAIRLEAD_CASES=70 plays only these.
import { OTHER_NETWORKS } from '../../support/fixture/stories/networks.ts';
import { testNetworks } from '../../support/fixture/tests.ts';

testNetworks(OTHER_NETWORKS);
