// SPDX-License-Identifier: Apache-2.0
// Of relay.bench.mjs: one workload for some time, counted after a second in which everything has started.
import { connect } from 'node:net';

const REQUEST = Buffer.alloc(64);
const ANSWER_BYTES = 256;
const task = JSON.parse(process.argv[2]);
let count = 0;

const dial = (options = {}) =>
  connect({ host: '127.0.0.1', port: task.port, noDelay: true, ...options }).on(
    'error',
    (error) => {
      console.error(error.message);
      process.exit(1);
    },
  );

const workloads = {
  bulk() {
    const buffer = Buffer.alloc(1 << 20);
    const callback = (bytes) => {
      count += bytes / 2 ** 20;
      return true;
    };
    dial({ onread: { buffer, callback } });
  },
  requests() {
    const socket = dial();
    let got = 0;
    socket.on('data', ({ length }) => {
      got += length;
      if (got < ANSWER_BYTES) return;
      got = 0;
      count += 1;
      socket.write(REQUEST);
    });
    socket.write(REQUEST);
  },
  connections() {
    const socket = dial();
    let got = 0;
    socket.on('data', ({ length }) => {
      got += length;
      if (got < ANSWER_BYTES) return;
      count += 1;
      socket.destroy();
      workloads.connections();
    });
    socket.write(REQUEST);
  },
};

for (let at = 0; at < task.connections; at += 1) workloads[task.workload]();
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
await wait(1000);
const [before, startedMs] = [count, performance.now()];
await wait(task.milliseconds);
const perSecond = ((count - before) * 1000) / (performance.now() - startedMs);
process.send({ perSecond }, () => process.exit(0));
