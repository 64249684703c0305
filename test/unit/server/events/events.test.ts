// SPDX-License-Identifier: Apache-2.0
// Kubernetes Events: the object the API server takes, and how few of them are sent.
import { describe, expect, test, vi } from 'vitest';
import {
  buildEvent,
  EVENTS,
  type EventReason,
  type KubeEvent,
} from '../../../../src/server/events/event.ts';
import { createEventRecorder } from '../../../../src/server/events/recorder.ts';

const NOW = Date.parse('2026-01-02T03:04:05.678Z');
const origin = { nodeName: 'n1', nowMs: NOW, serial: 0 };
const service = { kind: 'Service', namespace: 'ns', name: 'web' } as const;
const node = { kind: 'Node', name: 'n1' } as const;

test('an event about a Service, whole', () => {
  const event = buildEvent(
    {
      reason: 'FailedToStartServiceHealthcheck',
      target: { ...service, uid: 'u-1' },
      note: 'no port',
      count: 1,
    },
    origin,
  );
  expect(event).toEqual({
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `web.${(BigInt(NOW) * 1_000_000n).toString(16)}`, namespace: 'ns' },
    eventTime: '2026-01-02T03:04:05.678000Z',
    reportingController: 'kube-proxy',
    reportingInstance: 'kube-proxy-n1',
    type: 'Warning',
    reason: 'FailedToStartServiceHealthcheck',
    action: 'Listen',
    note: 'no port',
    regarding: { apiVersion: 'v1', kind: 'Service', name: 'web', namespace: 'ns', uid: 'u-1' },
  });
});

test('an event about the Node lives in default and is found by its name', () => {
  const event = buildEvent({ reason: 'Starting', target: node, note: '', count: 1 }, origin);
  expect(event.metadata.namespace).toBe('default');
  expect(event.regarding).toEqual({ apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'n1' });
  expect([event.type, event.action]).toEqual(['Normal', 'StartKubeProxy']);
});

test('repeats are a series', () => {
  const event = buildEvent({ reason: 'MapFull', target: node, note: '', count: 7 }, origin);
  expect(event.series).toEqual({ count: 7, lastObservedTime: '2026-01-02T03:04:05.678000Z' });
});

test('what would be refused as too long is cut', () => {
  const name = `${'a'.repeat(230)}.${'b'.repeat(22)}`;
  const event = buildEvent(
    { reason: 'MapFull', target: { kind: 'Node', name }, note: 'ü'.repeat(1000), count: 1 },
    { ...origin, nodeName: name },
  );
  expect(event.metadata.name.length).toBeLessThanOrEqual(253);
  expect(event.metadata.name).toMatch(/^[a-z0-9.]+[a-z0-9]\.[0-9a-f]+$/);
  expect(event.reportingInstance).toHaveLength(128);
  expect(Buffer.byteLength(event.note)).toBeLessThanOrEqual(1024);
  expect(event.note).toMatch(/^ü{500,}…$/);
});

test('every reason has an action, and both fit', () => {
  for (const [reason, { action }] of Object.entries(EVENTS)) {
    expect(reason).toMatch(/^[A-Z][A-Za-z]{3,127}$/);
    expect(action).toMatch(/^[A-Z][A-Za-z]{3,127}$/);
  }
});

describe('what is sent', () => {
  function recorder(post?: (event: KubeEvent) => Promise<void>, runsTimers = true) {
    let wall = NOW;
    let monotonic = 0;
    const sent: KubeEvent[] = [];
    const pauses: number[] = [];
    const made = createEventRecorder(
      {
        post: async (event) => {
          await post?.(event);
          sent.push(event);
        },
      },
      'n1',
      {
        nowMs: () => wall,
        monotonicMs: () => monotonic,
        random: () => 0.5,
        after: (delayMs, action) => {
          pauses.push(delayMs);
          if (runsTimers) queueMicrotask(action);
          return () => undefined;
        },
      },
    );
    return {
      sent,
      pauses,
      close: () => made.close(),
      pass: (minutes: number) => {
        wall += minutes * 60_000;
        monotonic += minutes * 60_000;
      },
      setWallClock: (minutes: number) => {
        wall += minutes * 60_000;
      },
      say: (note: string, reason: EventReason = 'MapFull', target = service) =>
        made.record(reason, target, note),
      stats: () => made.stats(),
      idle: () => made.idle(),
    };
  }

  test('the same words are counted, and told with their number after five minutes', async () => {
    const { say, sent, pass, idle, stats } = recorder();
    for (let times = 0; times < 10; times++) say('full');
    pass(5);
    say('full');
    pass(5);
    say('full');
    await idle();
    expect(sent.map(({ series }) => series?.count)).toEqual([undefined, 10, undefined]);
    expect(stats()).toEqual({ sent: 3, failed: 0, dropped: 0, heldBack: 9 });
  });

  test('three different ones at once, then one in five minutes; nothing is lost from the count', async () => {
    const { say, sent, pass, idle } = recorder();
    for (let index = 0; index < 5; index++) say(`full ${index}`);
    pass(4);
    say('still');
    pass(1);
    say('later');
    say('too soon');
    await idle();
    expect(sent.map(({ note, series }) => [note, series?.count])).toEqual([
      ['full 0', undefined],
      ['full 1', undefined],
      ['full 2', undefined],
      ['later', 4],
    ]);
  });

  test('a wall clock that is set back or forwards neither silences nor frees', async () => {
    const { say, sent, pass, setWallClock, idle } = recorder();
    say('full');
    setWallClock(500);
    say('full');
    setWallClock(-5_000);
    pass(5);
    say('full');
    await idle();
    expect(sent).toHaveLength(2);
    expect(sent[1]?.eventTime).toBe(
      new Date(NOW - 4_495 * 60_000).toISOString().replace('Z', '000Z'),
    );
  });

  test('tokens come back to three and no more', async () => {
    const { say, sent, pass, idle } = recorder();
    say('first');
    pass(500);
    for (let index = 0; index < 5; index++) say(`full ${index}`);
    await idle();
    expect(sent).toHaveLength(4);
  });

  test('reasons and objects have their own measure, and every event a name of its own', async () => {
    const { say, sent, idle } = recorder();
    say('x');
    say('x', 'InvalidService');
    say('x', 'MapFull', { kind: 'Service', namespace: 'ns', name: 'web2' } as never);
    await idle();
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map(({ metadata }) => metadata.name)).size).toBe(3);
  });

  test('one after the other; what does not fit the queue is dropped and counted', async () => {
    let release = (): void => {};
    let underWay = 0;
    let most = 0;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { say, stats, idle, sent } = recorder(async () => {
      most = Math.max(most, ++underWay);
      await gate;
      underWay--;
    });
    for (let index = 0; index < 150; index++) {
      say('x', 'MapFull', { kind: 'Service', namespace: 'ns', name: `s${index}` } as never);
    }
    expect(stats().dropped).toBe(49);
    release();
    await idle();
    expect(most).toBe(1);
    expect(sent).toHaveLength(101);
  });

  test('one that is refused is counted, and the next event is sent', async () => {
    let fails = true;
    const { say, stats, idle } = recorder(async () => {
      if (fails) throw refusal(403);
    });
    say('a');
    await idle();
    fails = false;
    say('b');
    await idle();
    expect(stats()).toMatchObject({ sent: 1, failed: 1 });
  });

  test('a sender that throws at once is no different', async () => {
    const { say, stats, idle } = recorder(() => {
      throw refusal(422);
    });
    say('a');
    await idle();
    expect(stats().failed).toBe(1);
  });

  const refusal = (status: number) => Object.assign(new Error(`HTTP ${status}`), { status });

  test.each([
    ['no answer', new Error('silent'), 12],
    ['HTTP 500', refusal(500), 12],
    ['HTTP 429', refusal(429), 12],
    ['HTTP 403', refusal(403), 1],
    ['HTTP 409 at once', refusal(409), 1],
  ])('%s for ever: given up after the attempts that it is worth', async (_, error, attempts) => {
    let posts = 0;
    const { say, stats, idle, pauses } = recorder(async () => {
      posts++;
      throw error;
    });
    say('a');
    await idle();
    expect([posts, stats().failed, stats().sent]).toEqual([attempts, 1, 0]);
    expect(pauses).toEqual(Array(attempts - 1).fill(7_500));
  });

  test('one that met a silent API server arrives later, before those after it', async () => {
    let left = 3;
    const { say, sent, stats, idle } = recorder(async () => {
      if (left-- > 0) throw new Error('silent');
    });
    say('a');
    say('b');
    await idle();
    expect([sent.map(({ note }) => note), stats().failed]).toEqual([['a', 'b'], 0]);
  });

  test('one whose answer was lost is not posted twice', async () => {
    let isFirst = true;
    const { say, stats, idle } = recorder(async () => {
      const error = isFirst ? new Error('silent') : refusal(409);
      isFirst = false;
      throw error;
    });
    say('a');
    await idle();
    expect(stats()).toMatchObject({ sent: 1, failed: 0 });
  });

  test('nothing is posted once it is closed, and a pause ends', async () => {
    let posts = 0;
    const { say, idle, close, pauses } = recorder(async () => {
      posts++;
      throw new Error('silent');
    }, false);
    say('a');
    say('b');
    await vi.waitFor(() => expect(pauses).toHaveLength(1));
    close();
    await idle();
    expect(posts).toBe(1);
  });
});
