// SPDX-License-Identifier: Apache-2.0
// Prints what the scenarios of the last `npm run test:e2e` counted, as one table.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

const folder = new URL('../../build/test/e2e/', import.meta.url);
const files = existsSync(folder) ? readdirSync(folder).sort() : [];
const rows = files.flatMap((file) => JSON.parse(readFileSync(new URL(file, folder), 'utf8')));
const ofUsedPorts = (count = 0) => (count > 0 ? ` (${count} from a used source port)` : '');
const table = [
  '| Scenario | Seconds | Requests | Failed | Longest, ms |',
  '|---|---:|---:|---:|---:|',
  ...rows.map(
    ({ scenario, seconds, requests, failed, fromUsedPorts, longestMs }) =>
      `| ${scenario} | ${seconds} | ${requests} | ${failed}${ofUsedPorts(fromUsedPorts)} | ${longestMs} |`,
  ),
].join('\n');
if (rows.length > 0) console.log(table);
