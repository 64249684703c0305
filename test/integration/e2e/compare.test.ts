// SPDX-License-Identifier: Apache-2.0
// The switch of docs/install.md on real nodes, with `fairlead compare` before it (kube-proxy alone), during it (both) and after it
// (fairlead alone, against what kube-proxy had), for each mode of kube-proxy that this kernel has: ipvs needs IPVS.
import { test } from 'vitest';
import { expectSame, POD_RANGES, SAVED, saveRules } from './lab/compared.ts';
import { applyFairlead } from './lab/proxies.ts';
import { EVERYTHING, openStage } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import { replaceKubeProxy } from './lab/swap.ts';

for (const mode of ['iptables', 'nftables'] as const) {
  describeCluster(
    `from kube-proxy in mode ${mode}, compared`,
    `compare-${mode}`,
    (parts) => openStage(parts, { proxy: 'kube-proxy', mode }),
    (stage, results) => {
      test('before: kube-proxy alone', async () => {
        await expectSame(stage(), 'kube-proxy');
        await saveRules(stage(), mode);
        await expectSame(stage(), 'kube-proxy', ['plan', mode]);
      });

      test('during: fairlead beside it', async () => {
        const what = `fairlead beside kube-proxy (${mode})`;
        await results.scenario(stage(), what, EVERYTHING, (stage) =>
          applyFairlead(stage, { overlay: 'beside-kube-proxy' }),
        );
        await expectSame(stage(), 'kube-proxy');
        await expectSame(stage(), 'fairlead', [], POD_RANGES);
      });

      test('after: fairlead alone', async () => {
        const what = `kube-proxy (${mode}) → fairlead from beside it`;
        await results.scenario(stage(), what, EVERYTHING, replaceKubeProxy);
        for (const file of SAVED) await expectSame(stage(), 'fairlead', ['plan', file]);
      });
    },
  );
}
