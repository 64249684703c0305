// SPDX-License-Identifier: Apache-2.0
// node load-child.mjs ADDON OBJECT COOKIE CAN_SET_RETVAL: loads every program with these settings and
// prints {capabilities, programs: {name: instructions walked}}, or {error, log} if one is refused.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [addon, path, cookie = '0', canSetRetval = '0'] = process.argv.slice(2);
const native = createRequire(import.meta.url)(addon);
const capabilities = /^CapEff:\s*(\w+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
const object = native.openObject(readFileSync(path), { name: 'sock' });
object.setRodata('node_netns_cookie', new Uint8Array(BigUint64Array.of(BigInt(cookie)).buffer));
object.setRodata('can_set_retval', Uint8Array.of(Number(canSetRetval)));
try {
  object.load();
  const programs = object.programs.map(({ name }) => {
    return [name, object.program(name).info.verifiedInsns];
  });
  process.stdout.write(JSON.stringify({ capabilities, programs: Object.fromEntries(programs) }));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: error.message, log: error.log }));
} finally {
  object.close();
}
