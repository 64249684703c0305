// SPDX-License-Identifier: Apache-2.0
// Two UDP Services of one node: one whose backend changes, and one whose sockets are to be left alone.
import { expect } from 'vitest';
import { type AddressKind, service, target } from '../../../support/builders.ts';
import type { TestNode } from '../../../support/node.ts';

export const WEB = { n: 10, protocol: 'UDP' } as const;
export const OTHER = { n: 11, protocol: 'UDP' } as const;
export const KINDS = ['IPv4', 'IPv6', 'v4-mapped'] as const;

interface UdpServices {
  /** Names of the backends. */
  put(...pods: readonly string[]): void;
  putOther(...pods: readonly string[]): void;
  /** The port of the first gets another name: another Service port, with backends of its own. */
  rename(...pods: readonly string[]): void;
  /** Of new connections to the first: the sync that removed the others is over. */
  answeredBy(backend: string): Promise<void>;
}

export function udpServices(nodeOf: () => TestNode): UdpServices {
  const of = (name: string, spec: typeof WEB | typeof OTHER, pods: readonly string[]) =>
    service(name, spec, nodeOf().pods(...pods));
  return {
    put: (...pods) => nodeOf().manifests.put('web.yaml', of('web', WEB, pods)),
    putOther: (...pods) => nodeOf().manifests.put('other.yaml', of('other', OTHER, pods)),
    rename: (...pods) => {
      const renamed = of('web', WEB, pods).map((object) =>
        JSON.parse(JSON.stringify(object).replaceAll('"main"', '"second"')),
      );
      nodeOf().manifests.put('web.yaml', renamed);
    },
    answeredBy: async (backend) => {
      await nodeOf().programmed();
      const answer = await nodeOf().client().once(target(WEB));
      expect(answer).toMatchObject({ kind: 'answered', backend });
    },
  };
}

/** Address and port, as arguments of held.c. */
export const words = (kind: AddressKind, spec: typeof WEB | typeof OTHER = WEB) => {
  const { address, port } = target(spec, kind);
  return [address, port];
};
