// SPDX-License-Identifier: Apache-2.0
// Against a kernel that answers with prepared datagrams.
import { describe, expect, it } from 'vitest';
import {
  deleteConntrack,
  type OpenConntrackSocket,
  readConntrack,
} from '../../../../src/sys/conntrack/conntrack-table.ts';
import { deletionOf, entryOf, type WantsEntry } from '../../../../src/sys/conntrack/entry.ts';
import { joined, messagesIn } from '../../../../src/sys/netlink/wire.ts';
import { endMessage, entryMessage, type TrackedFlow } from '../../../support/conntrack.ts';

const DNS: TrackedFlow = {
  ...{ protocol: 'UDP', source: '10.1.0.7', sourcePort: 40000 },
  ...{ destination: '10.96.0.10', destinationPort: 53 },
  ...{ backend: '10.1.1.5', backendPort: 5353 },
};
const FLOW = {
  ...{ protocol: 'UDP', destination: '10.96.0.10', destinationPort: 53 },
  ...{ replySource: '10.1.1.5', replySourcePort: 5353 },
};
const DNS6: TrackedFlow = {
  ...DNS,
  ...{ source: 'fd00:1::7', destination: 'fd00:96::a', backend: 'fd00:1::5' },
};

const refusal = (code: string): Error => Object.assign(new Error(code), { code });

interface FakeSocket {
  readonly open: OpenConntrackSocket;
  readonly sent: Uint8Array[];
  readonly counts: { open: number };
}

/** Each datagram, or error, is the next answer. */
function answering(...answers: (Uint8Array | Error)[]): FakeSocket {
  const sent: Uint8Array[] = [];
  const counts = { open: 0 };
  const take = (): Uint8Array | undefined => {
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return next;
  };
  const open: OpenConntrackSocket = () => {
    counts.open++;
    return {
      receive: take,
      async exchange(message) {
        if (message !== undefined) sent.push(message);
        return take();
      },
      close: () => void counts.open--,
    };
  };
  return { open, sent, counts };
}

async function read(kernel: FakeSocket, wants: WantsEntry = (_protocol, port) => port === 53) {
  const found: object[] = [];
  const dump = await readConntrack(
    { family: 'IPv4', wants },
    async (entries) => void found.push(...entries.map(({ identity: _, ...flow }) => flow)),
    kernel.open,
  );
  expect(kernel.counts.open).toBe(0);
  return { ...dump, found };
}

describe('readConntrack', () => {
  it('reads datagrams until the kernel is done', async () => {
    const other = entryMessage({ ...DNS, destinationPort: 80 });
    const kernel = answering(joined([entryMessage(DNS), other]), entryMessage(DNS), endMessage(3));
    const whole = { entries: 3, isWhole: true, found: [FLOW, FLOW] };
    expect(await read(kernel)).toEqual(whole);
    expect(kernel.sent).toHaveLength(1);
  });

  it('reads both families, and flows that were not translated', async () => {
    const { backend: _, backendPort: __, ...plain } = DNS6;
    const kernel = answering(joined([entryMessage(DNS6), entryMessage(plain)]), endMessage(3));
    const { found } = await read(kernel);
    const flow = { ...FLOW, destination: 'fd00:96::a', replySource: 'fd00:1::5' };
    const untranslated = { ...flow, replySource: 'fd00:96::a', replySourcePort: 53 };
    expect(found).toEqual([flow, untranslated]);
  });

  it('asks with the protocol, too', async () => {
    const asked: string[] = [];
    const messages = (['TCP', 'UDP', 'SCTP'] as const).map((protocol) =>
      entryMessage({ ...DNS, protocol }),
    );
    const { found } = await read(answering(joined(messages), endMessage(3)), (protocol, port) => {
      asked.push(`${protocol} ${port}`);
      return protocol === 'SCTP';
    });
    expect(asked).toEqual(['TCP 53', 'UDP 53', 'SCTP 53']);
    expect(found).toEqual([{ ...FLOW, protocol: 'SCTP' }]);
  });

  it.each([
    ['marked as interrupted', [entryMessage(DNS, 0x10), endMessage(3)]],
    ['that ends with EINTR', [entryMessage(DNS), endMessage(3, 4)]],
    ['cut short by ENOBUFS', [entryMessage(DNS), refusal('ENOBUFS')]],
    ['without an end', [entryMessage(DNS)]],
  ])('of a dump %s what has arrived is used', async (_name, answers) => {
    expect(await read(answering(...answers))).toEqual({
      ...{ entries: 1, isWhole: false, found: [FLOW] },
    });
  });

  it.each([
    ['an answer', endMessage(2, 1), 'EPERM'],
    ['the end of a dump', endMessage(3, 22), 'EINVAL'],
    ['the socket', refusal('EPROTONOSUPPORT'), 'EPROTONOSUPPORT'],
  ])('rejects with the error in %s', async (_name, answer, code) => {
    const kernel = answering(answer);
    await expect(read(kernel)).rejects.toMatchObject({ code });
    expect(kernel.counts.open).toBe(0);
  });

  it('passes over what is cut off', async () => {
    const message = entryMessage(DNS);
    for (let size = 17; size < message.length; size++) {
      const cut = message.slice(0, size);
      new DataView(cut.buffer).setUint32(0, size, true);
      await read(answering(cut, endMessage(3)));
    }
  });
});

const entryIn = (flow: TrackedFlow) => {
  const [message] = [...messagesIn(entryMessage(flow))];
  return entryOf(message!, () => true)!;
};

describe('deleteConntrack', () => {
  it('names the entry by its first tuple, its zone and its id: without a tuple all would go', () => {
    const bytes = deletionOf(entryIn({ ...DNS, id: 7, zone: 3 }), 1);
    const [message] = [...messagesIn(bytes)];
    expect(message?.type).toBe(0x102);
    // CTA_TUPLE_ORIG is first: 52 bytes for IPv4 addresses and ports.
    expect([...message!.body.subarray(0, 8)]).toEqual([2, 0, 0, 0, 52, 0, 1, 0]);
    expect([...message!.body.subarray(56)]).toEqual([
      6, 0, 18, 0, 0, 3, 0, 0, 8, 0, 12, 0, 0, 0, 0, 7,
    ]);
  });

  it('counts what it has deleted, not what had gone or is kept', async () => {
    const entries = [DNS, DNS, DNS, DNS].map(entryIn);
    const gone = endMessage(2, 2);
    const kernel = answering(endMessage(2), gone, endMessage(2, 16), endMessage(2));
    expect(await deleteConntrack(entries, kernel.open)).toBe(2);
    expect(kernel.counts.open).toBe(0);
  });

  it('rejects with another error', async () => {
    const kernel = answering(endMessage(2, 1));
    await expect(deleteConntrack([entryIn(DNS)], kernel.open)).rejects.toMatchObject({
      code: 'EPERM',
    });
    expect(kernel.counts.open).toBe(0);
  });

  it('opens no socket for nothing', async () => {
    const kernel = answering(refusal('EPERM'));
    expect(await deleteConntrack([], kernel.open)).toBe(0);
  });
});
