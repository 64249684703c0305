// SPDX-License-Identifier: Apache-2.0
// One copy of the packet programs for all tests of a file, whose maps are emptied before each.
import { beforeEach } from 'vitest';
import type { PacketSettings } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { emptiedBeforeEach, emptyBeforeEach } from '../../support/emptied.ts';
import { type LoadSettings, PacketDrive, XDP_FIRST } from './packet-drive.ts';

/** Call it at the top of a file or of a `describe`. */
export function sharedDrive(
  settings: Partial<PacketSettings> = {},
  load: LoadSettings = {},
): PacketDrive {
  const drive = XDP_FIRST === undefined ? ownDrive(settings, load) : driveOfAll();
  beforeEach(() => drive.putSettings(settings));
  return drive;
}

function ownDrive(settings: Partial<PacketSettings>, load: LoadSettings): PacketDrive {
  return emptiedBeforeEach(new PacketDrive(settings, {}, load));
}

let ofAll: PacketDrive | undefined;

/** Of all files that again.ts plays in one, whose settings are written before each test; it ends with the process. */
function driveOfAll(): PacketDrive {
  ofAll ??= new PacketDrive({}, {}, { withoutMac: true });
  emptyBeforeEach(ofAll);
  return ofAll;
}
