// SPDX-License-Identifier: Apache-2.0
// Associations of SCTP by their chunks: when one is established, when it ends, and whom the end is believed.
import { beforeEach, describe, expect, test } from 'vitest';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();
/** Tags that the client, and the backend, have chosen: the other side sends them. */
const OF_CLIENT = 0xc11e0001;
const OF_BACKEND = 0xbac0e002;

const CHUNKS = [
  ...['INIT', 'INIT_ACK', 'ABORT', 'SHUTDOWN', 'SHUTDOWN_ACK', 'COOKIE_ECHO', 'COOKIE_ACK'],
  ...['SHUTDOWN_COMPLETE', 'HEARTBEAT', 'DATA'],
] as const;
const STATES = ['new', 'established', 'half-closed', 'closed'] as const;
type State = (typeof STATES)[number];

/** What does not stay, by side, chunk and state. */
const STEPS: Readonly<Record<string, Readonly<Partial<Record<State, State>>>>> = {
  'client ABORT': { new: 'closed', established: 'closed', 'half-closed': 'closed' },
  'client SHUTDOWN': { established: 'half-closed' },
  'client SHUTDOWN_ACK': { established: 'half-closed' },
  'client SHUTDOWN_COMPLETE': { established: 'closed', 'half-closed': 'closed' },
  // The client begins another association.
  'client INIT': { closed: 'new' },
  'backend ABORT': { new: 'closed', established: 'closed', 'half-closed': 'closed' },
  'backend SHUTDOWN': { established: 'half-closed' },
  'backend SHUTDOWN_ACK': { established: 'half-closed' },
  'backend SHUTDOWN_COMPLETE': { established: 'closed', 'half-closed': 'closed' },
  'backend COOKIE_ACK': {
    ...{ new: 'established', 'half-closed': 'established', closed: 'established' },
  },
};

describe.each(
  (['IPv4', 'IPv6'] as const).flatMap((family) =>
    [false, true].map((isMasqueraded) => [family, isMasqueraded] as const),
  ),
)('%s, masqueraded: %s', (family, isMasqueraded) => {
  const { client, vip, pod, node } = names(family);
  const seen = isMasqueraded ? node(40_000) : client();
  const of = {
    client: (word: string, tag = OF_BACKEND) =>
      drive.through(`${client()} > ${vip()} sctp ${word} tag=${tag}`),
    backend: (word: string, tag = OF_CLIENT) =>
      drive.through(`${pod(5, 80)} > ${seen} sctp ${word} tag=${tag}`),
  };
  /** What the backend did shows with the next packet of the client that is looked at: this one changes nothing. */
  const look = (side: string) => side === 'backend' && of.client('INIT_ACK');
  const states = () => drive.phases(family);

  beforeEach(() =>
    publish(drive, family, {
      ...{ protocol: 'SCTP', backendPort: 80, rule: { masquerade: isMasqueraded } },
    }),
  );

  function handshake(): void {
    of.client('INIT', 0);
    of.backend('INIT_ACK');
    of.client('COOKIE_ECHO');
    of.backend('COOKIE_ACK');
    of.client('DATA payload=8');
  }

  const REACH: Readonly<Record<State, () => void>> = {
    new: () => of.client('INIT', 0),
    established: handshake,
    'half-closed': () => {
      handshake();
      of.client('SHUTDOWN');
    },
    closed: () => {
      handshake();
      of.client('ABORT');
    },
  };

  test('a handshake establishes an association, and nothing before its end does', () => {
    of.client('INIT', 0);
    of.backend('INIT_ACK');
    of.client('COOKIE_ECHO');
    expect([states(), drive.confirmed(family)]).toEqual([['new'], []]);
    expect(of.backend('COOKIE_ACK')).toBe(
      `${vip()} > ${client()} sctp COOKIE_ACK tag=${OF_CLIENT}`,
    );
    expect(of.client('DATA payload=8')).toBe(
      `${seen} > ${pod(5, 80)} sctp DATA tag=${OF_BACKEND} payload=8`,
    );
    expect([states(), drive.halfOpen(family)]).toEqual([['established'], []]);
  });

  test('two packets of each side establish nothing', () => {
    for (let n = 0; n < 3; n++) {
      of.client('DATA payload=20');
      of.backend('ABORT');
      of.backend('DATA payload=4');
    }
    expect(drive.confirmed(family)).toEqual([]);
    expect(states()).toEqual(['closed']);
  });

  test.each(
    (['client', 'backend'] as const).flatMap((side) =>
      CHUNKS.flatMap((chunk) => STATES.map((state) => [side, chunk, state] as const)),
    ),
  )('of the %s: %s, %s', (side, chunk, state) => {
    REACH[state]();
    expect(states()).toEqual([state]);
    of[side](chunk);
    look(side);
    expect(states()).toEqual([STEPS[`${side} ${chunk}`]?.[state] ?? state]);
  });

  test.each(['client', 'backend'] as const)('forged ends of the %s are not believed', (side) => {
    handshake();
    for (const chunk of ['SHUTDOWN', 'SHUTDOWN_ACK', 'ABORT', 'SHUTDOWN_COMPLETE'])
      of[side](chunk, 0xbad);
    look(side);
    expect(states()).toEqual(['established']);
  });

  test.each([
    ['client', OF_CLIENT],
    ['backend', OF_BACKEND],
  ] as const)('a %s that knows nothing of it ends it by the tag that it was sent', (side, tag) => {
    handshake();
    of[side]('ABORT', tag);
    look(side);
    expect(states()).toEqual(['closed']);
  });

  test('the client begins again with the same port: later ends have other tags', () => {
    handshake();
    of.client('INIT', 0);
    of.backend('INIT_ACK', 71);
    of.client('COOKIE_ECHO', 72);
    of.backend('COOKIE_ACK', 71);
    of.client('COOKIE_ECHO', 72);
    drive.age(1, family);
    of.client('DATA payload=4', 72);
    of.client('ABORT');
    expect(states()).toEqual(['established']);
    of.client('ABORT', 72);
    expect(states()).toEqual(['closed']);
  });

  test('after the end an INIT is led to a backend of now; what is late keeps the former one', () => {
    const rule = { masquerade: isMasqueraded };
    publish(drive, family, {
      ...{ protocol: 'SCTP', backendPort: 80, backends: [{}, {}], rule },
    });
    const backendOf = (line: string): string => line.split(' ')[2] ?? '';
    const first = backendOf(of.client('INIT', 0));
    const other = first === pod(5, 80) ? 2 : 1;
    const set = drive.putSet(7, [other]);
    drive.putFrontend({
      ...{ address: PLACES[family].vip, port: 80, protocol: 'SCTP' },
      rules: { host: { ...rule, set } },
    });
    expect(backendOf(of.client('INIT', 0)), 'it has not ended').toBe(first);
    drive.through(`${first} > ${seen} sctp ABORT tag=${OF_CLIENT}`);
    expect(backendOf(of.client('SHUTDOWN_COMPLETE'))).toBe(first);
    expect(backendOf(of.client('INIT', 0))).toBe(pod(4 + other, 80));
  });
});
