// SPDX-License-Identifier: Apache-2.0
// Requests in Geneve that the node of the backend cannot deliver go back as they came, and go on with SNAT: nodes learn of
// an endpoint, and of its end, at different times.
import { beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { readWrapped, wrap } from '../../../../support/packets/geneve.ts';
import {
  NODES,
  putBackendNode,
  putLocalBackend,
  putPeer,
  takeGeneve,
  withRoutes,
} from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish, type Service } from '../support/stage.ts';

const drive = sharedDrive();
withRoutes(drive);
const [LEFT, DROPPED, SENT] = [0xffff_ffff, 2, 7];
/** Of the option, in the UDP datagram. */
const FLAGS_AT = 8 + 8 + 5;

describe.each(FAMILIES.flatMap((family) => FAMILIES.map((outer) => [family, outer] as const)))(
  '%s between nodes of %s',
  (family, outer) => {
    const { client, vip, pod } = names(family);
    const at = PLACES[family];
    const { own, peer } = NODES[outer];
    const request = `${client()} > ${vip()}`;
    const reply = `${pod(5)} > ${client()}`;
    const backend = { address: at.pod(5), port: 8080 };
    const rule = { masquerade: true, returnsDirectly: true };
    const udpAt = 14 + (outer === 'IPv4' ? 20 : 40);

    beforeEach(() => {
      putPeer(drive, peer);
      takeGeneve(drive);
    });
    const frameOf = (inner: string, { flags = 0, named = backend } = {}): Uint8Array => {
      const frame = wrap({ from: peer, to: own, backend: named, inner });
      frame[udpAt + FLAGS_AT] = flags;
      return frame;
    };
    const receive = (frame: Uint8Array) => drive.run('fl_ingress', frame);

    describe('at the node of the backend', () => {
      function serve(service: Service = {}): void {
        publish(drive, family, { rule, backends: [{ isLocal: true }], ...service });
        putLocalBackend(drive, { id: 1, ...backend });
      }
      function givesBack(inner: string, named = backend): void {
        const { action, frame } = receive(frameOf(inner, { named }));
        expect(action).toBe(SENT);
        const name = (address: string): string => (outer === 'IPv4' ? address : `[${address}]`);
        expect(readWrapped(frame)).toMatchObject({
          outer: `${name(own)} > ${name(peer)}:6081 udp nosum`,
          vni: 0xfa1ead,
          option: family === 'IPv4' ? 'ff4681020101' : 'ff4681050101',
          backend: at.port(named.address, named.port),
          inner,
        });
        expect(drive.halfOpen(family)).toEqual([]);
      }

      test.each([
        ['is not here', { address: at.pod(6), port: 8080 }],
        ['has another port', { address: at.pod(5), port: 8081 }],
      ])('a backend that %s', (_, named) => {
        serve();
        givesBack(`${request} tcp SYN ttl=63`, named);
        expect(drive.reasons()).toEqual({ GENEVE_NO_BACKEND: 1 });
      });

      test.each(['GONE', 'FREE'] as const)('a backend that is %s', (state) => {
        serve();
        drive.putBackend({ id: 1, ...backend, state, isLocal: true });
        givesBack(`${request} tcp SYN ttl=63`);
        expect(drive.reasons()).toEqual({ GENEVE_NO_BACKEND: 1 });
      });

      test('no Service, and the sender takes no requests', () => {
        serve();
        putPeer(drive, peer, 0);
        givesBack(`${client()} > ${at.port(at.vip, 81)} tcp SYN ttl=63`);
        expect(drive.reasons()).toEqual({ GENEVE_NOT_A_FRONTEND: 1 });
      });

      test('a fragment', () => {
        serve({ protocol: 'UDP', backends: [] });
        const inner = `${request} udp payload=200 frag=0+ take=104 id=5`;
        expect(receive(frameOf(inner)).action).toBe(SENT);
        expect(drive.reasons()).toEqual({ GENEVE_NO_BACKEND: 1 });
      });

      test('a connection goes on when its backend is no endpoint any more; none begins', () => {
        serve();
        receive(frameOf(`${request} tcp SYN`));
        drive.egress(`${reply} tcp SYN ACK`);
        receive(frameOf(`${request} tcp ACK`));
        drive.putBackend({ id: 1, ...backend, state: 'GONE', isLocal: true });
        const { action, frame } = receive(frameOf(`${request} tcp ACK payload=9`));
        expect(action).toBe(LEFT);
        expect(describeFrame(frame)).toBe(`${client()} > ${pod(5)} tcp ACK payload=9`);
        expect(drive.reasons()).toEqual({});
        expect(receive(frameOf(`${request} tcp SYN`)).action).toBe(SENT);
        const other = { named: { address: at.pod(6), port: 8080 } };
        expect(receive(frameOf(`${request} tcp ACK`, other)).action).toBe(SENT);
      });
    });

    describe('at the node that has sent it', () => {
      const send = (line: string): number => drive.run('fl_ingress', buildFrame(line)).action;
      const takesBack = (line: string, named = backend): string => {
        const { action, frame } = receive(frameOf(line, { flags: 1, named }));
        return action === LEFT ? describeFrame(frame) : `action ${action}`;
      };
      beforeEach(() => {
        publish(drive, family, { rule, backends: [{}, { state: 'TERMINATING' }] });
        drive.putFrontend({
          ...{ address: at.vip, port: 80, protocol: 'TCP' },
          rules: { host: { ...rule, set: drive.putSet(0, [1]) } },
        });
        for (const id of [1, 2]) putBackendNode(drive, id, peer);
      });

      test('the flow goes on with SNAT, to the same backend, and stays so', () => {
        expect(send(`${request} tcp SYN`)).toBe(SENT);
        expect(takesBack(`${request} tcp SYN ttl=63`)).toBe(
          `${client()} > ${pod(5)} tcp SYN ttl=63`,
        );
        expect(drive.conns(family)).toMatchObject([{ backendId: 1, isOneSided: false }]);
        expect(drive.reasons()).toMatchObject({ DIRECT_GIVEN_BACK: 1 });
        expect(drive.ingress(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
        expect(takesBack(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
        expect(drive.conns(family)).toHaveLength(1);
      });

      test('in the middle of a connection', () => {
        send(`${request} tcp SYN`);
        send(`${request} tcp ACK`);
        expect(takesBack(`${request} tcp ACK payload=3`)).toBe(
          `${client()} > ${pod(5)} tcp ACK payload=3`,
        );
        expect(drive.confirmed(family)).toEqual([]);
      });

      test('a backend that is gone here, too: another one is chosen', () => {
        send(`${request} tcp SYN`);
        drive.putBackend({ id: 1, ...backend, state: 'GONE' });
        drive.putBackend({ id: 2, address: at.pod(6), port: 8080 });
        drive.putFrontend({
          ...{ address: at.vip, port: 80, protocol: 'TCP' },
          rules: { host: { ...rule, set: drive.putSet(1, [2]) } },
        });
        expect(takesBack(`${request} tcp SYN`)).toBe(`${client()} > ${pod(6)} tcp SYN`);
      });

      test('without a flow it begins one', () => {
        expect(takesBack(`${request} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
      });

      test('a flow that has another backend by now stays as it is', () => {
        send(`${request} tcp SYN`);
        const named = { address: at.pod(6), port: 8080 };
        expect(takesBack(`${request} tcp SYN`, named)).toBe(`action ${DROPPED}`);
        expect(drive.conns(family)).toMatchObject([{ backendId: 1, isOneSided: true }]);
        expect(drive.reasons()).toEqual({ DIRECT_GIVEN_BACK: 1, DIRECT_OUTDATED: 1 });
      });

      test('what is given back is never sent back', () => {
        const other = `${client()} > ${at.port(at.vip, 81)} tcp SYN`;
        expect(takesBack(other)).toBe(`action ${DROPPED}`);
        expect(drive.reasons()).toMatchObject({ GENEVE_NOT_A_FRONTEND: 1 });
      });
    });
  },
);
