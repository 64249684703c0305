// SPDX-License-Identifier: Apache-2.0
// As test/integration/packets/iptables.test.ts, on a node that uses iptables-legacy.
import { testRules } from '../../support/fixture/rules.ts';

testRules('fairlead-iptables-legacy');
