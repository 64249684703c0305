// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, cases.test.ts and histories.test.ts, on the rules that fairlead writes with `--engine iptables` on a
// node that uses iptables-nft. test/integration/networks has iptables-legacy.
import { testRules } from '../../support/fixture/rules.ts';

testRules('fairlead-iptables-nft');
