// SPDX-License-Identifier: Apache-2.0
// Requests from inside a sandbox, as a kubelet, a load balancer or Prometheus sends them on the node.
import { run } from '../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../tools/lab/sandbox.ts';

export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/** Bash, because tests ask again and again: a Node for each request would take fifty times the CPU time. Of HTTP/1.0 no answer is chunked. */
const GET =
  'exec 3<>/dev/tcp/127.0.0.1/$0 && printf "GET %s HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n" "$1" >&3 && cat <&3';

/** Sends a request from a sandbox to its 127.0.0.1. Throws if nothing listens. */
export async function getInSandbox(
  sandbox: Sandbox,
  port: number,
  path: string,
): Promise<HttpAnswer> {
  const argv = insideSandbox(sandbox, ['bash', '-c', GET, String(port), path]);
  const [program = '', ...args] = argv;
  const { stdout, stderr, code } = await run(program, args);
  const answer = /^HTTP\/1\.[01] (\d{3}) .*?\r\n\r\n(.*)$/s.exec(stdout);
  if (code !== 0 || answer === null) throw new Error(`port ${port}, ${path}: ${stderr || stdout}`);
  return { status: Number(answer[1]), body: answer[2] ?? '' };
}
