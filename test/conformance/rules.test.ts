// SPDX-License-Identifier: Apache-2.0
// The dataplanes of rules without a kernel: what they have written, one difference after the other, gives every client what
// the plan says.
import { IPTABLES, NFTABLES } from '../../src/engines/capabilities.ts';
import { memoryIptables } from '../support/iptables/memory/dataplane.ts';
import { memoryNftables } from '../support/nftables/memory/dataplane.ts';
import { testConformance } from './conformance.ts';
import { drivenRules } from './subjects/driven-rules.ts';
import { answerOfRules } from './subjects/iptables-rules.ts';
import { answerOfTable } from './subjects/nftables-rules.ts';

testConformance('iptables', {
  capabilities: IPTABLES,
  open: () => drivenRules(memoryIptables(), answerOfRules),
});

testConformance('nftables', {
  capabilities: NFTABLES,
  open: () => drivenRules(memoryNftables(), answerOfTable),
});
