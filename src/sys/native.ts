// SPDX-License-Identifier: Apache-2.0
// Loads the addon, whose functions native/index.d.ts documents. Nothing else imports it. It is loaded at the
// first call, so that commands that do not need the kernel work without it. FAIRLEAD_ADDON names another file
// (the sanitizer build in tests).

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type * as surface from '../../native/index.d.ts';
import { FairleadError, reasonOf } from '../errors.ts';
import { ELF_BYTES, processorOf } from '../lib/processor.ts';
import { packageRoot } from './package.ts';

export type {
  BatchResult,
  BpfLink,
  BpfMap,
  BpfObject,
  BpfProgram,
  MapInfo,
  NativeError,
  NetlinkSocket,
  Relay,
  RingBuffer,
  StructLayout,
} from '../../native/index.d.ts';

type Native = typeof surface;

const builtFile = join(packageRoot(), 'build', 'native', 'fairlead.node');

let loaded: Native | undefined;

/** Throws NO_ADDON if the addon is missing or does not load. */
function addon(): Native {
  if (loaded !== undefined) return loaded;
  const file = process.env['FAIRLEAD_ADDON'] ?? builtFile;
  try {
    // A .node file has no types of its own: index.d.ts describes it.
    loaded = createRequire(import.meta.url)(file) as Native;
    return loaded;
  } catch (error) {
    throw new FairleadError(
      'NO_ADDON',
      `cannot load the addon ${file}: ${reasonNotLoaded(file, error)}`,
    );
  }
}

/** The addon is missing or does not load: on another system than Linux, or with another C library. */
export const isWithoutAddon = (error: unknown): error is FairleadError =>
  error instanceof FairleadError && error.code === 'NO_ADDON';

/** For a library of another processor the C library's reason is that there is no such file. */
function reasonNotLoaded(file: string, error: unknown): string {
  const built = processorOfFile(file);
  return built === undefined || built === process.arch
    ? `${reasonOf(error).split('\n', 1)[0]}; run: npm run build:native`
    : `it is built for ${built}, and this is ${process.arch}; use the image of this processor, or run: npm run build:native`;
}

function processorOfFile(file: string): string | undefined {
  try {
    return processorOf(readFileSync(file).subarray(0, ELF_BYTES));
  } catch {
    return undefined; // There is no such file.
  }
}

export const openObject: Native['openObject'] = (...args) => addon().openObject(...args);
export const openPinnedMap: Native['openPinnedMap'] = (...args) => addon().openPinnedMap(...args);
export const openPinnedProgram: Native['openPinnedProgram'] = (...args) =>
  addon().openPinnedProgram(...args);
export const openPinnedLink: Native['openPinnedLink'] = (...args) =>
  addon().openPinnedLink(...args);
export const openRingBuffer: Native['openRingBuffer'] = (...args) =>
  addon().openRingBuffer(...args);
export const openRelay: Native['openRelay'] = (...args) => addon().openRelay(...args);
export const openNetlink: Native['openNetlink'] = (...args) => addon().openNetlink(...args);
export const tcxPrograms: Native['tcxPrograms'] = (...args) => addon().tcxPrograms(...args);
export const cgroupPrograms: Native['cgroupPrograms'] = (...args) =>
  addon().cgroupPrograms(...args);
export const programName: Native['programName'] = (...args) => addon().programName(...args);
export const tcFilter: Native['tcFilter'] = (...args) => addon().tcFilter(...args);
export const removeTcFilter: Native['removeTcFilter'] = (...args) =>
  addon().removeTcFilter(...args);
export const readBtf: Native['readBtf'] = (...args) => addon().readBtf(...args);
export const possibleCpus: Native['possibleCpus'] = () => addon().possibleCpus();
export const mountBpffs: Native['mountBpffs'] = (...args) => addon().mountBpffs(...args);
export const unmount: Native['unmount'] = (...args) => addon().unmount(...args);
export const unshareNetwork: Native['unshareNetwork'] = () => addon().unshareNetwork();
export const unshareMounts: Native['unshareMounts'] = () => addon().unshareMounts();
export const fileSystemType: Native['fileSystemType'] = (...args) =>
  addon().fileSystemType(...args);
export const lockExclusively: Native['lockExclusively'] = (...args) =>
  addon().lockExclusively(...args);
export const abstractListener: Native['abstractListener'] = (...args) =>
  addon().abstractListener(...args);
export const sendDescriptors: Native['sendDescriptors'] = (...args) =>
  addon().sendDescriptors(...args);
export const receiveDescriptors: Native['receiveDescriptors'] = (...args) =>
  addon().receiveDescriptors(...args);
export const netnsCookie: Native['netnsCookie'] = (...args) => addon().netnsCookie(...args);
export const netnsAddresses: Native['netnsAddresses'] = (...args) =>
  addon().netnsAddresses(...args);
export const xtTargets: Native['xtTargets'] = (...args) => addon().xtTargets(...args);
export const waitGracePeriod: Native['waitGracePeriod'] = () => addon().waitGracePeriod();
export const readIterator: Native['readIterator'] = (...args) => addon().readIterator(...args);
export const connectSockets: Native['connectSockets'] = (...args) =>
  addon().connectSockets(...args);
export const destroySockets: Native['destroySockets'] = (...args) =>
  addon().destroySockets(...args);
export const releaseProgram: Native['releaseProgram'] = () => addon().releaseProgram();
export const setTrimThreshold: Native['setTrimThreshold'] = (...args) =>
  addon().setTrimThreshold(...args);
export const libbpfVersion: Native['libbpfVersion'] = () => addon().libbpfVersion();
