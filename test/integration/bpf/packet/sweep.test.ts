// SPDX-License-Identifier: Apache-2.0
// The sweep: what has expired goes with all its legs, everything else stays.
import { beforeEach, describe, expect, test } from 'vitest';
import { flowTables } from '../../../../src/dataplane/bpf/flows/kernel.ts';
import { createBatchSweep } from '../../../../src/dataplane/bpf/flows/sweep/batch-sweep.ts';
import type { Sweep } from '../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { readTraffic } from '../../../../src/dataplane/bpf/flows/traffic/ended.ts';
import { arrayTable } from '../../../../src/dataplane/bpf/maps/kernel.ts';
import { SETTINGS } from './support/packet-drive.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, publish } from './support/stage.ts';
import { kernelSweep, refusal } from './support/sweeps.ts';

const drive = sharedDrive();
let sweep: Sweep;

const refused = refusal();

/** The one of the agent, for kernels that do not load that of the kernel. */
const batchSweep = (): Sweep =>
  createBatchSweep({
    flows: flowTables((name) => drive.object.map(name)),
    traffic: arrayTable(drive.object.map('fl_traffic')),
    timeouts: SETTINGS.timeoutSeconds,
    nowSeconds: () => Number(process.hrtime.bigint() / 1_000_000_000n),
  });

const round = () => {
  while (!sweep.step());
  return sweep.total();
};

const CASES = (['kernel', 'agent'] as const).flatMap((by) =>
  (['IPv4', 'IPv6'] as const).map((family) => ({ by, family })),
);

describe.each(CASES)('by the $by, $family', ({ by, family }) => {
  beforeEach((context) => {
    if (by === 'kernel' && refused !== undefined) context.skip(refused);
    sweep = by === 'kernel' ? kernelSweep(drive) : batchSweep();
  });
  const { client, vip, node, pod } = names(family);
  const digit = family === 'IPv4' ? 4 : 6;
  const masquerade = { rule: { masquerade: true } };
  const send = (word: string, port = 40_000) => drive.through(`${client(port)} > ${vip()} ${word}`);
  const answer = (word: string, port = 40_000) =>
    drive.through(`${pod(5)} > ${node(port)} ${word}`);
  const entries = (tier: 'main' | 'new') =>
    [drive.flows(tier, family), drive.nats(tier, family), drive.snats(tier, family)].map(
      (of) => of.length,
    );
  const NONE = [0, 0, 0];

  /** What was seen last in a table was seen that much earlier. */
  function age(table: string, seconds: number): void {
    const at = table.endsWith('flow') ? 16 : 4;
    drive.edit(`fl_${table}${digit}`, (value) => {
      const view = new DataView(value.buffer, value.byteOffset);
      view.setUint32(at, view.getUint32(at, true) - seconds, true);
    });
  }
  const ageAll = (tier: 'main' | 'new', seconds: number): void => {
    for (const leg of ['flow', 'nat', 'snat']) age(tier === 'main' ? leg : `new_${leg}`, seconds);
  };
  function establish(): void {
    publish(drive, family, masquerade);
    send('tcp SYN');
    answer('tcp SYN ACK');
    send('tcp ACK');
  }

  /** As a connection that had credit (shortcuts/credit.test.ts). */
  function beginInMain(): void {
    send('tcp SYN');
    for (const leg of ['flow', 'nat', 'snat'] as const) {
      const { keys, values } = drive.object.map(`fl_new_${leg}${digit}`).readAll();
      drive.object.map(`fl_${leg}${digit}`).putBatch(keys, values);
      drive.clear(leg, 'new', family);
    }
  }

  test.each([
    ['new', 'one question', 31, 1],
    ['main', 'several', 181, 3],
  ] as const)(
    'nobody has swept the %s legs of %s: their port is the node’s',
    (tier, _, seconds, n) => {
      publish(drive, family, { ...masquerade, protocol: 'UDP' });
      const datagrams = Array.from({ length: n }, () => {
        send('udp payload=1');
        return answer('udp payload=2');
      });
      const toClient = `${vip()} > ${client(40_000)} udp payload=2`;
      expect(datagrams).toEqual(Array(n).fill(toClient));
      const snat = tier === 'main' ? 'snat' : 'new_snat';
      age(snat, seconds);
      expect(answer('udp payload=2'), 'the client has asked meanwhile').toBe(toClient);
      ageAll(tier, seconds);
      const toNode = `${pod(5)} > ${node(40_000)} udp payload=2`;
      expect([answer('udp payload=2'), answer('udp payload=2')]).toEqual([toNode, toNode]);
      expect(drive.snats(tier, family)).toEqual([]);
      expect(send('udp payload=1')).toBe(`${node(40_000)} > ${pod(5)} udp payload=1`);
      expect(answer('udp payload=2')).toBe(toClient);
    },
  );

  test.each([
    ['TCP half-open', 'new', 20, 'TCP', () => send('tcp SYN')],
    ['TCP half-open in the main tables', 'main', 20, 'TCP', beginInMain],
    ['UDP half-open', 'new', 30, 'UDP', () => send('udp payload=1')],
    ['TCP established', 'main', 86_400, 'TCP', establish],
    [
      'UDP established',
      'main',
      120,
      'UDP',
      () => {
        for (let n = 0; n < 3; n++) {
          send('udp payload=1');
          answer('udp payload=1');
        }
      },
    ],
    [
      'TCP half-closed',
      'main',
      3600,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
      },
    ],
    [
      'TCP closed by both',
      'main',
      10,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
        send('tcp FIN ACK');
      },
    ],
    [
      'TCP reset by the backend',
      'main',
      10,
      'TCP',
      () => {
        establish();
        answer('tcp RST');
      },
    ],
  ] as const)(
    '%s: the flow goes after its time, not before',
    (_, tier, seconds, protocol, make) => {
      publish(drive, family, { protocol, ...masquerade });
      make();
      expect(entries(tier)).toEqual([1, 1, 1]);
      ageAll(tier, seconds - 5);
      round();
      expect(entries(tier)).toEqual([1, 1, 1]);
      ageAll(tier, 6);
      expect(round()).toMatchObject({ expired: 1, orphans: 0 });
      expect(entries(tier)).toEqual(NONE);
    },
  );

  describe.each([false, true])('a reset, and then silence, masqueraded: %s', (isMasqueraded) => {
    const toClient = isMasqueraded ? node(40_000) : client();
    const reply = (word: string) => drive.through(`${pod(5)} > ${toClient} ${word}`);
    const ALL = isMasqueraded ? [1, 1, 1] : [1, 1, 0];
    const CLIENT_SEQ = 4_294_000_000;
    const BACKEND_SEQ = 70_000_000;
    const FORGED_SEQ = 2_000_000_000;
    /** net.ipv4.tcp_rmem's, from Linux 6.16 on. */
    const LARGEST_WINDOW = 32 * 1024 * 1024;

    beforeEach(() => {
      publish(drive, family, { rule: { masquerade: isMasqueraded } });
      send(`tcp SYN seq=${CLIENT_SEQ}`);
      reply(`tcp SYN ACK seq=${BACKEND_SEQ} ack=${CLIENT_SEQ + 1}`);
      send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${BACKEND_SEQ + 1}`);
    });

    test.each([
      ['of the client', [() => send(`tcp RST seq=${FORGED_SEQ}`)]],
      ['of the backend', [() => reply(`tcp RST seq=${FORGED_SEQ}`)]],
      ['of the backend, acknowledging', [() => reply(`tcp RST ACK seq=${FORGED_SEQ} ack=1`)]],
      [
        'that a forged packet of the client precedes',
        [
          () => send(`tcp ACK seq=${FORGED_SEQ} ack=${FORGED_SEQ}`),
          () => send(`tcp RST seq=${FORGED_SEQ}`),
          () => reply(`tcp RST seq=${FORGED_SEQ}`),
        ],
      ],
      ['that is a FIN of the client', [() => send(`tcp FIN ACK seq=${FORGED_SEQ} ack=1`)]],
      ['that is a FIN of the backend', [() => reply(`tcp FIN ACK seq=${FORGED_SEQ} ack=1`)]],
    ])('a forged one %s leaves the flow as it is', (_, packets) => {
      for (const packet of packets) packet();
      ageAll('main', 7200);
      expect(round()).toMatchObject({ expired: 0, orphans: 0 });
      expect(entries('main')).toEqual(ALL);
      drive.edit(`fl_snat${digit}`, (value) => expect((value[10]! | value[11]!) & 3).toBe(0));
      expect(send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${BACKEND_SEQ + 1}`)).toContain(pod(5));
    });

    test('a flow leg whose memory is another flow’s says nothing of what is forged', () => {
      drive.edit(`fl_flow${digit}`, (value) => {
        value[0] = value[0]! ^ 1; // `check`
      });
      reply(`tcp RST seq=${FORGED_SEQ}`);
      expect(drive.nats('main', family)[0]?.value).toMatchObject({ hasReset: true });
    });

    test.each([
      ['of the client', () => send(`tcp RST seq=${CLIENT_SEQ + 1}`)],
      [
        'of the client, a window later',
        () => send(`tcp RST seq=${CLIENT_SEQ + 4_000_000 - 2 ** 32}`),
      ],
      ['of the backend', () => reply(`tcp RST seq=${BACKEND_SEQ + 1}`)],
      ['of the backend, a window later', () => reply(`tcp RST ACK seq=${BACKEND_SEQ + 4_000_000}`)],
      [
        'of the client, the largest window later',
        () => send(`tcp RST seq=${CLIENT_SEQ + LARGEST_WINDOW - 2 ** 32}`),
      ],
      [
        'of the backend, the largest window later',
        () => reply(`tcp RST seq=${BACKEND_SEQ + LARGEST_WINDOW}`),
      ],
    ])('one %s ends it', (_, packet) => {
      packet();
      ageAll('main', 11);
      expect(round()).toMatchObject({ expired: 1 });
      expect(entries('main')).toEqual(NONE);
    });

    test('a gap in a large window is filled: what follows is still the backend’s', () => {
      const far = BACKEND_SEQ + 100_000_000;
      send(`tcp ACK seq=${CLIENT_SEQ + 1} ack=${far}`);
      reply(`tcp RST seq=${far + 1}`);
      ageAll('main', 11);
      expect(round()).toMatchObject({ expired: 1 });
    });

    test('a long transfer is followed', () => {
      for (let sent = 1; sent < 2 ** 32; sent += 5_000_000) {
        const [seq, ack] = [CLIENT_SEQ + sent, BACKEND_SEQ + sent].map((n) => n % 2 ** 32);
        send(`tcp ACK seq=${seq} ack=${ack}`);
      }
      send(`tcp RST seq=${(CLIENT_SEQ + 2 ** 32 - 1) % 2 ** 32}`);
      ageAll('main', 11);
      expect(round()).toMatchObject({ expired: 1 });
    });
  });

  test('the SNAT port of an ended connection is reserved for two minutes', () => {
    establish();
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    ageAll('main', 11);
    expect(round()).toMatchObject({ expired: 1, orphans: 0 });
    expect([entries('main'), entries('new')]).toEqual([NONE, [0, 0, 1]]);
    expect(answer('tcp ACK'), 'nobody’s').toBe(`${pod(5)} > ${node(40_000)} tcp ACK`);
    age('new_snat', 100);
    round();
    const other = names(family).client(40_000).replace('9:', '8:').replace('9]', '8]');
    expect(drive.through(`${other} > ${vip()} tcp SYN`)).not.toContain(node(40_000));
    for (const leg of ['flow', 'nat', 'snat'] as const) {
      if (leg !== 'snat') drive.clear(leg, 'new', family);
    }
    age('new_snat', 121);
    expect(round()).toMatchObject({ orphans: 2 });
    expect(drive.through(`${other} > ${vip()} tcp SYN`)).toContain(node(40_000));
  });

  test('it is the client’s own again before', () => {
    establish();
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    ageAll('main', 11);
    round();
    establish();
    expect(answer('tcp ACK')).toBe(`${vip()} > ${client()} tcp ACK`);
    expect([entries('main'), entries('new')]).toEqual([[1, 1, 1], NONE]);
  });

  test('packets of the backend alone keep a flow', () => {
    establish();
    age('flow', 90_000);
    round();
    expect(entries('main')).toEqual([1, 1, 1]);
  });

  test('a packet of the next second, seen on another CPU, keeps it too', () => {
    publish(drive, family, masquerade);
    send('tcp SYN');
    ageAll('new', -1);
    round();
    expect(entries('new')).toEqual([1, 1, 1]);
    expect(send('tcp SYN')).toContain(pod(5));
  });

  test('packets and bytes of a flow that ends are its frontend’s', () => {
    establish();
    answer('tcp ACK payload=100');
    ageAll('main', 90_000);
    round();
    const header = family === 'IPv4' ? 40 : 60;
    expect(readTraffic(arrayTable(drive.object.map('fl_traffic')), 1)).toEqual({
      toBackend: { packets: 2, bytes: 2 * header },
      toClient: { packets: 2, bytes: 2 * header + 100 },
    });
  });

  test.each(['new', 'main'] as const)('legs whose flow leg is gone go (%s)', (tier) => {
    if (tier === 'main') establish();
    else {
      publish(drive, family, masquerade);
      send('tcp SYN');
    }
    drive.clear('flow', tier, family);
    round();
    expect(entries(tier)).toEqual([0, 1, 1]);
    ageAll(tier, 25);
    expect(round()).toMatchObject({ orphans: 1 });
    expect(entries(tier)).toEqual(NONE);
  });

  test.each(['new', 'main'] as const)('so does a snat leg whose nat leg is gone (%s)', (tier) => {
    if (tier === 'main') establish();
    else {
      publish(drive, family, masquerade);
      send('tcp SYN');
    }
    ageAll(tier, 25);
    drive.clear('nat', tier, family);
    drive.clear('flow', tier, family);
    expect(round()).toMatchObject({ orphans: 1 });
    expect(entries(tier)).toEqual(NONE);
  });

  test.each(['flow', 'nat'] as const)(
    'a port that another flow has by now stays its (%s)',
    (gone) => {
      const other = names(family).client(40_001);
      establish();
      answer('tcp RST');
      drive.putSettings({
        snatPorts: { first: 40_000, last: 40_000 },
        localPorts: { first: 40_001, last: 40_001 },
      });
      drive.keepPorts(40_001);
      expect(drive.through(`${other} > ${vip()} tcp SYN`)).toBe(
        `${node(40_000)} > ${pod(5)} tcp SYN`,
      );
      if (gone === 'nat') drive.clear('flow', 'main', family);
      age('flow', 90_000);
      age('nat', 90_000);
      round();
      expect(drive.nats('main', family)).toEqual([]);
      expect(answer('tcp SYN ACK')).toBe(`${vip()} > ${other} tcp SYN ACK`);
    },
  );

  test('idle legs of a flow that lives stay', () => {
    establish();
    ageAll('main', 1000);
    expect(round()).toMatchObject({ expired: 0, orphans: 0 });
    expect(entries('main')).toEqual([1, 1, 1]);
  });

  test('a round counts what is in each table afterwards', () => {
    establish();
    send('tcp SYN', 40_001);
    expect([...sweep.used()]).toEqual([]);
    round();
    const used = (leg: string): number | undefined => sweep.used().get(`fl_${leg}${digit}`);
    const legs = ['flow', 'nat', 'snat', 'new_flow', 'new_nat', 'new_snat'];
    expect(legs.map(used)).toEqual([1, 1, 1, 1, 1, 1]);
    ageAll('main', 90_000);
    round();
    expect(legs.map(used)).toEqual([0, 0, 0, 1, 1, 1]);
  });

  test.runIf(by === 'kernel')(
    'every entry is looked at once in a round, whatever the number of parts',
    () => {
      publish(drive, family, { protocol: 'UDP' });
      for (let n = 0; n < 50; n++) send('udp payload=1', 41_000 + n);
      const parts = kernelSweep(drive, () => 65_536 * 7);
      expect(parts.steps).toBe(12 * 7);
      while (!parts.step());
      expect(parts.total()).toMatchObject({ entries: 100, expired: 0 });
    },
  );
});
