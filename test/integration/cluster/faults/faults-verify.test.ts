// SPDX-License-Identifier: Apache-2.0
// `fairlead verify` finds what the watch cannot know: an event that was lost, while everything else arrives.
import { describe, expect, test } from 'vitest';
import type { VerifyView } from '../../../../src/observe/verify-view.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { untilHolds } from '../../../support/until.ts';
import { servicesPath } from '../objects/objects.ts';
import { prepareFaults } from '../programs/clock.ts';
import { hookFaultStage } from './fault-hooks.ts';

const readiness = await prepareFaults();

describe.skipIf(!readiness.isReady)('verify', () => {
  const running = hookFaultStage(readiness);

  const verify = async () =>
    (await askAgent(running.stage.node.instance.runDir, '/v1/verify')) as VerifyView;
  const portsOf = async (name: string): Promise<readonly string[]> => {
    const rows = (await running.stage.rows()).filter((row) => row.name === name);
    return rows.map(({ frontend, kernelState }) => `${/:\d+/.exec(frontend)?.[0]} ${kernelState}`);
  };

  test('a change that the watch never tells is found, and the watches list anew', async () => {
    const { stage } = running;
    await stage.follows('lost');
    await untilHolds(async () => expect(await verify()).toMatchObject({ found: 0, unproven: 0 }));
    stage.server.inject({
      line: (line, stream) => {
        const isLost = line.startsWith('{"type":"MODIFIED"') && line.includes('"name":"lost"');
        if (!isLost) stream.send(line);
      },
    });
    const ports = [{ name: 'http', port: 81 }];
    await stage.plane.api.patch(`${servicesPath()}/lost`, { spec: { ports } });
    await stage.follows('after-lost');
    expect(await portsOf('lost')).toEqual([':80 ok']);
    expect(await verify()).toMatchObject({ against: 'API server', found: 1, relisted: 1 });
    expect(stage.log.join('\n')).toContain('IPv4 frontend');
    await untilHolds(async () => expect(await portsOf('lost')).toEqual([':81 ok']), 60_000);
    expect(await verify()).toMatchObject({ found: 0, unproven: 0, relisted: 0 });
    expect(await running.counts.suspicious()).toBe(0);
  });
});
