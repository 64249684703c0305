// SPDX-License-Identifier: Apache-2.0
// The annotations that users write, each a row: what it is called, which values it has, what counts in place of one that
// cannot be read. docs/semantics.md has a row for each, and a default of the node is a row of src/config/settings/services.ts.
import type { Algorithm, Forwarding, Service, Topology } from './types.ts';

export interface Annotation {
  readonly name: string;
  readonly of: 'Service' | 'EndpointSlice';
  /** The values, if they are a choice, in the order in which documents list them. */
  readonly values?: readonly string[];
  /** What counts instead of a value that is rejected. */
  readonly instead: string;
  /**
   * A bad value says nothing of who is served: the rest of the object must go on to follow. Else the last good version
   * of the object keeps serving.
   */
  readonly isMinor?: true;
}

/** An annotation with a choice of values. */
export type Choice<T extends string> = Pick<Annotation, 'name' | 'instead'> & {
  readonly values: readonly T[];
};

const NODE_DEFAULT = 'the default of the node is used';

/** Read by readChoices into the field of Service that has the same name. The first value counts if nobody chooses. */
export const CHOICES = {
  /** How its backends are chosen. */
  algorithm: {
    name: 'fairlead.io/algorithm',
    of: 'Service',
    values: [
      'random',
      'weighted-random',
      'round-robin',
      'weighted-round-robin',
      'least-connections',
      'weighted-least-connections',
      'source-hash',
      'maglev',
    ] satisfies readonly Algorithm[],
    instead: NODE_DEFAULT,
    isMinor: true,
  },
  /** Which way requests from outside go to other nodes, and their answers back. */
  forwarding: {
    name: 'fairlead.io/forwarding',
    of: 'Service',
    values: ['snat', 'dsr', 'hybrid', 'ipip'] satisfies readonly Forwarding[],
    instead: NODE_DEFAULT,
    isMinor: true,
  },
  /** Which of its endpoints are near enough. */
  topology: {
    name: 'fairlead.io/topology',
    of: 'Service',
    values: [
      'hints',
      'ignore',
      'prefer-zone',
      'prefer-node',
    ] as const satisfies readonly Topology[],
    instead: NODE_DEFAULT,
    isMinor: true,
  },
} as const satisfies Readonly<Record<string, Annotation>>;

/** A value of each choice. */
export type ServiceChoices = {
  readonly [K in keyof typeof CHOICES]: NonNullable<Service[K]>;
};

export const ANNOTATIONS = {
  ...CHOICES,
  /** The number of entries of its lookup tables. */
  tableEntries: {
    name: 'fairlead.io/table-size',
    of: 'Service',
    instead: 'the default is used',
    isMinor: true,
  },
  /** What its backends get at the head of each TCP connection. */
  proxyProtocol: {
    name: 'fairlead.io/proxy-protocol',
    of: 'Service',
    values: ['v2'],
    instead: 'no header is sent',
    isMinor: true,
  },
  /** Who may reach it. */
  ranges: {
    name: 'fairlead.io/source-ranges',
    of: 'Service',
    instead: 'the range is left out, or with deny nobody is admitted',
  },
  policy: {
    name: 'fairlead.io/source-ranges-policy',
    of: 'Service',
    values: ['allow', 'deny'],
    instead: 'its ranges admit nobody',
  },
  /** The first is the default, of ranges of the field. */
  scope: {
    name: 'fairlead.io/source-ranges-scope',
    of: 'Service',
    values: ['LoadBalancer', 'all'],
    instead: 'all is used',
  },
  /** At which of its frontends. */
  kinds: { name: 'fairlead.io/expose', of: 'Service', instead: 'nothing is exposed' },
  /** At which nodes. */
  nodes: {
    name: 'fairlead.io/expose-on-nodes',
    of: 'Service',
    instead: 'no node exposes the Service',
  },
  weights: {
    name: 'fairlead.io/weights',
    of: 'EndpointSlice',
    instead: 'the weight is 1',
    isMinor: true,
  },
} as const satisfies Readonly<Record<string, Annotation>>;

export const ANNOTATION_ROWS: readonly Annotation[] = Object.values(ANNOTATIONS);
