// SPDX-License-Identifier: Apache-2.0
// Opens one listening socket where it runs, hands it to its parent, and ends. A socket stays in the
// network namespace it was opened in: so a test process can serve in the namespace of a control plane.
import { createServer } from 'node:net';

const [host, port] = process.argv.slice(2);
const server = createServer();
server.listen(Number(port), host, () => {
  process.send('listening', server, () => server.close());
});
process.on('disconnect', () => process.exit(0));
