// SPDX-License-Identifier: Apache-2.0
// --nftables-offload on Linux 6.12, which has flowtables, whether the host's kernel has them or not.
import { guestOf } from '../../guest.ts';
import { declareTests, runVitest } from '../../vitest.ts';

const guest = await guestOf('6.12');
const files = ['test/integration/netns/nftables/offload.test.ts'];
declareTests(guest, 'flowtable', await runVitest(guest, { name: 'flowtable', files }));
