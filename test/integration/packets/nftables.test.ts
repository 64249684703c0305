// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, cases.test.ts and histories.test.ts, on the table that fairlead writes with `--engine nftables`.
import { testRules } from '../../support/fixture/rules.ts';

testRules('fairlead-nftables');
