// SPDX-License-Identifier: Apache-2.0
// The addon as a module: finds the built file and exports its functions, which index.d.ts documents.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Where build.sh puts it: beside this file in a package, in the build folder of the project in its checkout. */
const PLACES = ['./build/fairlead.node', '../build/native/fairlead.node'];

function builtFile() {
  const files = PLACES.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const found = files.find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new Error(
    `the addon is not built: there is no ${files.join(' and no ')}; run: npm rebuild @fairlead/libbpf`,
  );
}

export const {
  abstractListener,
  cgroupPrograms,
  connectSockets,
  destroySockets,
  fileSystemType,
  libbpfVersion,
  lockExclusively,
  mountBpffs,
  netnsAddresses,
  netnsCookie,
  openNetlink,
  openObject,
  openPinnedLink,
  openPinnedMap,
  openPinnedProgram,
  openRelay,
  openRingBuffer,
  possibleCpus,
  programName,
  readBtf,
  readIterator,
  receiveDescriptors,
  removeTcFilter,
  sendDescriptors,
  releaseProgram,
  setTrimThreshold,
  tcFilter,
  tcxPrograms,
  unmount,
  unshareMounts,
  unshareNetwork,
  waitGracePeriod,
  xtTargets,
} = createRequire(import.meta.url)(builtFile());
