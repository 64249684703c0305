// SPDX-License-Identifier: Apache-2.0
// One exchange over one new socket: connect, read the answer, close. Runs inside client pods.
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { connect, isIPv4, type Socket as TcpSocket } from 'node:net';
import { startDeadline } from './deadline.ts';
import type { Answer, Echo, SocketAddress, Target } from './protocol.ts';

export function exchange(target: Target, timeoutMs: number): Promise<Answer> {
  return target.protocol === 'TCP'
    ? exchangeTcp(target, timeoutMs)
    : exchangeUdp(target, timeoutMs);
}

export function dialTcp({ address, port, localAddress }: Target): TcpSocket {
  const family = isIPv4(address) ? 4 : 6;
  const bind = localAddress === undefined ? {} : { localAddress };
  return connect({ host: address, port, family, ...bind });
}

function exchangeTcp(target: Target, timeoutMs: number): Promise<Answer> {
  return new Promise((resolve) => {
    const startedMs = performance.now();
    const socket = dialTcp(target);
    let heard = '';
    const finish = (answer: Answer): void => {
      cancel();
      socket.destroy();
      resolve(answer);
    };
    const fail = (code: string): void => finish(failure(code, startedMs));
    const cancel = startDeadline(timeoutMs, () => fail('TIMEOUT'));
    socket.on('data', (chunk) => {
      heard += chunk.toString();
      if (heard.endsWith('\n')) finish(tcpAnswer(socket, heard, startedMs));
    });
    socket.on('end', () => fail('CLOSED'));
    socket.on('error', (error) => fail(errorCode(error)));
  });
}

/** Reads both ends of a connected socket; only valid before it is destroyed. */
export function tcpAnswer(socket: TcpSocket, line: string, startedMs: number): Answer {
  return answered(JSON.parse(line), startedMs, {
    local: { address: socket.localAddress ?? '', port: socket.localPort ?? 0 },
    peer: { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 },
  });
}

export function createUdp({ address, localAddress }: Target): UdpSocket {
  const socket = createSocket(isIPv4(address) ? 'udp4' : 'udp6');
  if (localAddress !== undefined) socket.bind(0, localAddress);
  return socket;
}

async function exchangeUdp(target: Target, timeoutMs: number): Promise<Answer> {
  const socket = createUdp(target);
  const startedMs = performance.now();
  try {
    if (target.isConnected) await connectUdp(socket, target);
    const to = target.isConnected ? undefined : target;
    return await sayUdp(socket, 'hello', to, timeoutMs);
  } catch (error) {
    return failure(errorCode(error), startedMs);
  } finally {
    socket.close();
  }
}

export function connectUdp(socket: UdpSocket, { address, port }: SocketAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    // The callback gets the error of connect() itself, such as a refusal by a hook.
    socket.connect(port, address, (error?: Error) => (error ? reject(error) : resolve()));
  });
}

/** Sends one datagram and awaits the reply that echoes it. */
export function sayUdp(
  socket: UdpSocket,
  text: string,
  to: SocketAddress | undefined,
  timeoutMs: number,
): Promise<Answer> {
  return new Promise((resolve) => {
    const startedMs = performance.now();
    const finish = (answer: Answer): void => {
      cancel();
      socket.removeAllListeners('message').removeAllListeners('error');
      resolve(answer);
    };
    const fail = (code: string): void => finish(failure(code, startedMs));
    const cancel = startDeadline(timeoutMs, () => fail('TIMEOUT'));
    const sent = (error: Error | null): void => {
      if (error !== null) fail(errorCode(error));
    };
    socket.on('error', (error) => fail(errorCode(error)));
    socket.on('message', (datagram, { address, port }) => {
      const ends = { local: bare(socket.address()), source: { address, port } };
      const echo: Echo = JSON.parse(datagram.toString('utf8'));
      if (echo.text !== text) return; // A late reply to an earlier datagram.
      const peer = to ? {} : { peer: bare(socket.remoteAddress()) };
      finish(answered(echo, startedMs, { ...ends, ...peer }));
    });
    if (to === undefined) socket.send(text, sent);
    else socket.send(text, to.port, to.address, sent);
  });
}

/** Without the family that Node adds, because the address itself tells it. */
function bare({ address, port }: SocketAddress): SocketAddress {
  return { address, port };
}

type Ends = Pick<Answer & { kind: 'answered' }, 'local' | 'peer' | 'source'>;

function answered(echo: Echo, startedMs: number, ends: Ends): Answer {
  const { backend, client: clientSeen, text } = echo;
  const elapsedMs = performance.now() - startedMs;
  const answer = { kind: 'answered', backend, clientSeen, elapsedMs, ...ends } as const;
  return text === undefined ? answer : { ...answer, text };
}

export function failure(code: string, startedMs: number): Answer {
  return { kind: 'failed', code, elapsedMs: performance.now() - startedMs };
}

export function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return 'UNKNOWN';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
}
