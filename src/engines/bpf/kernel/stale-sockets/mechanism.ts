// SPDX-License-Identifier: Apache-2.0
// What this kernel and this process can do about stale sockets, found by trying. Loads the objects on another
// thread; that they cannot be loaded, or that a way is missing, is a limit to show, not an error.

import { createSocket, type Socket } from 'node:dgram';
import { existsSync, readFileSync } from 'node:fs';
import { reasonOf } from '../../../../errors.ts';
import { addressBytes } from '../../../../lib/address-bytes.ts';
import { destroySockets } from '../../../../sys/native.ts';
import { OWN_NETNS } from '../../../../sys/netns-paths.ts';
import { bpfObjectPath } from '../../../../sys/package.ts';
import { codeOf } from '../../errors.ts';
import type { LayerObject, Rodata } from '../../layer.ts';
import type { ConnectAgain } from '../../stale-sockets/keeping.ts';
import { encodeDestroyRequests } from '../../stale-sockets/socket.ts';
import { type Loaded, type LoadOptions, loadLayer } from '../loader/load.ts';
import { takeBack, type Undo } from '../loader/undo.ts';
import { byHolders, HOLDERS_OBJECT, reasonOfNoHolders } from './connecting.ts';
import { byNetlink, bySockDestroy, DESTROY_OBJECT, type DestroyIn } from './destroyers.ts';
import { byRecords, byWalking, FIND_OBJECT, type FindStale, WALK_OBJECT } from './finder.ts';
import { entering } from './namespace.ts';

/** How sockets are destroyed; the first that works is used. */
export type Way = 'bpf_sock_destroy' | 'SOCK_DESTROY';

export interface Mechanism {
  /** undefined: they cannot be found, and stay as they are. */
  readonly find: FindStale | undefined;
  /** Why they are found namespace by namespace, which takes longer; undefined: they are found by their records. */
  readonly walksBecause: string | undefined;
  /** undefined: they cannot be destroyed. */
  readonly way: { readonly name: Way; readonly destroyIn: DestroyIn } | undefined;
  /** undefined: UDP sockets cannot be connected again. */
  readonly connectAgain: ConnectAgain | undefined;
  /** What it cannot do, each with the reason: the first one is why none can be destroyed, if `way` is undefined. */
  readonly limits: readonly string[];
  close(): void;
}

/** `can_make_cookie`: from Linux 5.12; before, sockets may have no cookie. */
const FIND_SETTINGS: readonly Rodata[] = [1, 0].map((value) => ({
  can_make_cookie: Uint8Array.of(value),
}));

export interface Loading {
  readonly options: LoadOptions;
  /** Grows: what close() undoes. */
  readonly undo: Undo;
}

export async function loadMechanism(options: LoadOptions): Promise<Mechanism> {
  const undo: Undo = [];
  const close = (): void => takeBack(undo);
  try {
    const noEntry = await reasonOfNoEntry();
    const { find, walksBecause } = await openFinder({ options, undo }, noEntry === undefined);
    const { way, limits } = await firstWay({ options, undo });
    const further = limitsOf({ noEntry, walksBecause, canDestroy: way !== undefined });
    const connecting = await openConnecting({ options, undo });
    const { connectAgain } = connecting;
    const all = [...limits, ...further, ...connecting.limits];
    return { find, walksBecause, way, connectAgain, limits: all, close };
  } catch (error) {
    close();
    const limit = `the programs that find stale sockets cannot be loaded: ${reasonOf(error)}`;
    const none = { find: undefined, walksBecause: undefined, way: undefined };
    return { ...none, connectAgain: undefined, limits: [limit], close };
  }
}

interface Reach {
  /** Why no namespace but the agent's own can be entered. */
  readonly noEntry: string | undefined;
  readonly walksBecause: string | undefined;
  readonly canDestroy: boolean;
}

/** Which of the sockets are out of reach, and why. What is not found is not refused either. */
function limitsOf({ noEntry, walksBecause, canDestroy }: Reach): readonly string[] {
  if (walksBecause === undefined) {
    return noEntry !== undefined && canDestroy ? [`${OWN_ALONE}: ${noEntry}`] : [];
  }
  const where =
    noEntry === undefined
      ? 'only those in network namespaces that are mounted where the agent sees it (/run/netns) or are those of processes it sees'
      : OWN_ALONE;
  const why = noEntry === undefined ? [] : [noEntry];
  const reasons = [...why, `iterators over maps cannot be loaded (${walksBecause})`].join(', and ');
  return [`${where}, and no others are refused: ${reasons}`];
}

const OWN_ALONE = "only those in the agent's own network namespace";

/** By records, or else by walking. Rejects with why not by records. */
async function openFinder(
  loading: Loading,
  canEnter: boolean,
): Promise<Pick<Mechanism, 'find' | 'walksBecause'>> {
  try {
    return { find: byRecords(await openRecords(loading)), walksBecause: undefined };
  } catch (error) {
    try {
      const walk = { bytes: readObject(WALK_OBJECT), rodata: [{}] };
      const find = byWalking(await load(walk, [], loading), canEnter);
      return { find, walksBecause: firstLine(reasonOf(error)) };
    } catch {
      // Kernels that refuse the former for want of a feature lack what the latter needs as well.
      throw error;
    }
  }
}

/** Rejects if this kernel does not load iterators over maps. */
export const openRecords = (loading: Loading): Promise<Loaded> =>
  load(
    { bytes: readObject(FIND_OBJECT), rodata: FIND_SETTINGS },
    ['fl_sock', 'fl_tcp_sock'],
    loading,
  );

/** Of a program that is refused, the log of the verifier follows. */
const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';

/** Keeps only the maps that are named: the others belong to the socket layer. */
async function load(
  object: LayerObject,
  maps: readonly string[],
  { options, undo }: Loading,
): Promise<Loaded> {
  const layer = { name: 'stale sockets', objects: [object], hooks: [] };
  const loaded = await loadLayer(layer, options, undo);
  for (const [name, map] of loaded.maps) if (!maps.includes(name)) map.close();
  return loaded;
}

function readObject(name: string): Uint8Array {
  const path = bpfObjectPath(name);
  if (!existsSync(path)) throw new Error(`${path} is missing`);
  return readFileSync(path);
}

/** Rejects if this kernel cannot find descriptors by their sockets. */
const openHolders = async (loading: Loading): Promise<ConnectAgain> => {
  const holders = { bytes: readObject(HOLDERS_OBJECT), rodata: [{}] };
  return byHolders(await load(holders, ['fl_asked'], loading));
};

/** Not without a descriptor of the process: neither then is the program loaded. */
async function openConnecting(
  loading: Loading,
): Promise<Pick<Mechanism, 'connectAgain' | 'limits'>> {
  try {
    const reason = await reasonOfNoHolders();
    if (reason === undefined) return { connectAgain: await openHolders(loading), limits: [] };
    return { connectAgain: undefined, limits: [`${NOT_AGAIN}: ${reason}`] };
  } catch (error) {
    const limit = `${NOT_AGAIN}: ${firstLine(reasonOf(error))}`;
    return { connectAgain: undefined, limits: [limit] };
  }
}

const NOT_AGAIN = 'UDP sockets are not connected again';

interface Choice {
  readonly way: { readonly name: Way; readonly destroyIn: DestroyIn } | undefined;
  readonly limits: readonly string[];
}

async function firstWay(loading: Loading): Promise<Choice> {
  const reasons: string[] = [];
  for (const name of ['bpf_sock_destroy', 'SOCK_DESTROY'] as const) {
    try {
      return { way: { name, destroyIn: await openWay(name, loading) }, limits: [] };
    } catch (error) {
      reasons.push(`${name}: ${reasonOf(error)}`);
    }
  }
  return { way: undefined, limits: [`this kernel cannot destroy sockets (${reasons.join('; ')})`] };
}

/** Throws if this kernel does not have it. */
export const openWay = (name: Way, loading: Loading): Promise<DestroyIn> => OPEN_WAY[name](loading);

const OPEN_WAY: Readonly<Record<Way, (loading: Loading) => Promise<DestroyIn>>> = {
  bpf_sock_destroy: async (loading) => {
    const destroy = { bytes: readObject(DESTROY_OBJECT), rodata: [{}] };
    return bySockDestroy(await load(destroy, ['fl_chosen'], loading));
  },
  SOCK_DESTROY: async () => {
    await destroyOwnSocket();
    return byNetlink;
  },
};

/** Why no namespace but the agent's own can be entered, with which it is tried; undefined: it can. */
async function reasonOfNoEntry(): Promise<string | undefined> {
  try {
    await entering(OWN_NETNS, (netns) => destroySockets(new Uint8Array(), netns));
    return undefined;
  } catch (error) {
    return codeOf(error) === 'EPERM' ? 'CAP_SYS_ADMIN is missing' : reasonOf(error);
  }
}

// Whether SOCK_DESTROY works, tried with a UDP socket of this process on loopback. Only the kernel's answer tells:
// without the module for UDP it is the same as for a socket that does not exist.
const LOOPBACK = '127.0.0.1';

/** Rejects if it does not work. */
async function destroyOwnSocket(): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('error', () => undefined);
  try {
    const port = await connectToItself(socket);
    const end = { address: wide(LOOPBACK), port };
    const [error] = await destroySockets(
      encodeDestroyRequests([
        {
          cookie: 0n,
          device: 0,
          socketFamily: 'IPv4',
          protocol: 'UDP',
          local: end,
          backend: end,
        },
      ]),
    );
    if (error === 'EOPNOTSUPP') throw new Error('CONFIG_INET_DIAG_DESTROY is not set');
    if (error !== undefined) throw new Error(error);
  } finally {
    socket.close();
  }
}

const connectToItself = (socket: Socket): Promise<number> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.bind(0, LOOPBACK, () => {
      const { port } = socket.address();
      socket.connect(port, LOOPBACK, (error?: Error) => (error ? reject(error) : resolve(port)));
    });
  });

/** v4-mapped. */
function wide(address: string): Uint8Array {
  const bytes = new Uint8Array(16).fill(0xff, 10, 12);
  bytes.set(addressBytes(address, 'IPv4'), 12);
  return bytes;
}
