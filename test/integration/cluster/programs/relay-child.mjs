// SPDX-License-Identifier: Apache-2.0
// The half of a relay that lives in another network namespace: it is handed listening sockets of ours,
// which stay where they were opened, and dials their targets from where it runs. Ends with its parent.
import { connect } from 'node:net';

process.on('message', ({ host, port }, listener) => {
  listener.on('connection', (client) => join(client, connect({ host, port })));
  process.send('relaying');
});
process.on('disconnect', () => process.exit(0));

/** Two connections become one; when either breaks, so does the other. */
function join(client, target) {
  client.setNoDelay(true);
  target.setNoDelay(true);
  client.on('error', () => target.destroy());
  target.on('error', () => client.resetAndDestroy());
  client.pipe(target);
  target.pipe(client);
}
