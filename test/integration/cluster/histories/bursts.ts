// SPDX-License-Identifier: Apache-2.0
// Many changes to many Services at once, so that an agent can be killed in the middle of applying them. All
// their pods are alive, so no connection to the first Services may ever fail.
import fc from 'fast-check';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { readyEndpoint, serviceObject, sliceObject } from '../../../support/objects.ts';
import { chance, podSets } from '../../../support/random.ts';
import { type Api, ApiError } from '../objects/api.ts';
import { servicesPath, slicesPath } from '../objects/objects.ts';

/** Enough that a change of all of them takes a while to apply. */
const COUNT = 120;
/** The last ones are created and deleted; the others stay and change their backends. */
const STEADY = 96;
const PARALLEL = 16;

const name = (n: number): string => `burst-${n}`;
const address = (n: number): string => `10.96.1.${n}`;

/** The next state of each Service: its pods, or for the last ones, whether it exists. */
export interface Burst {
  readonly pods: readonly (readonly number[])[];
  readonly isToggled: readonly boolean[];
}

export const bursts = (podCount: number): fc.Arbitrary<Burst> =>
  fc.record({
    pods: podSets(COUNT, podCount),
    isToggled: fc.array(chance(30), { minLength: COUNT, maxLength: COUNT }),
  });

/** The n-th Service, from 1. */
export const targetOf = (n: number): Target => ({
  protocol: 'TCP',
  address: address(n),
  port: 80,
});

const numbers = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

async function forEach(
  items: readonly number[],
  act: (n: number) => Promise<unknown>,
): Promise<void> {
  const left = [...items];
  const work = async (): Promise<void> => {
    for (let n = left.shift(); n !== undefined; n = left.shift()) await act(n);
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

const serviceOf = (n: number): object =>
  serviceObject(name(n), { clusterIP: address(n), ipFamilyPolicy: 'PreferDualStack' });

function sliceOf(n: number, pods: readonly Pod[], { pods: chosen }: Burst): object {
  const used = chosen[n - 1]!.map((index) => pods[index]!);
  return sliceObject(
    name(n),
    used.map(({ ipv4 }) => readyEndpoint(ipv4, 'n1')),
  );
}

export async function makeServices(api: Api, pods: readonly Pod[], change: Burst): Promise<void> {
  await forEach(numbers(1, COUNT), async (n) => {
    await api.create(servicesPath(), serviceOf(n));
    await api.create(slicesPath(), sliceOf(n, pods, change));
  });
}

/** Resolves when the API server has answered the last of the changes. */
export async function burst(api: Api, pods: readonly Pod[], change: Burst): Promise<void> {
  await forEach(numbers(1, COUNT), async (n) => {
    if (n > STEADY && change.isToggled[n - 1]) await toggle(api, n);
    else await api.replace(`${slicesPath()}/${name(n)}`, sliceOf(n, pods, change));
  });
}

async function toggle(api: Api, n: number): Promise<void> {
  const isThere = await remove(api, n);
  if (!isThere) await api.create(servicesPath(), serviceOf(n));
}

async function remove(api: Api, n: number): Promise<boolean> {
  try {
    await api.remove(`${servicesPath()}/${name(n)}`);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  }
}

/** Deletes all Services; their slices stay, as without a garbage collector. */
export async function removeServices(api: Api): Promise<void> {
  await forEach(numbers(1, COUNT), (n) => remove(api, n));
}
