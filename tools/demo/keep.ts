// SPDX-License-Identifier: Apache-2.0
// A kept demo: prints commands to inspect it, and waits for the end.
import { join } from 'node:path';
import { markKept } from '../lab/ownership.ts';
import { compiledPath, insideSandbox } from '../lab/sandbox.ts';
import { mainClient, type Stage, serviceTarget } from './stage.ts';

/** Prints what to try, and waits for SIGINT or SIGTERM. */
export async function keepStage(stage: Stage): Promise<void> {
  const { screen, topology } = stage;
  const signalled = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => resolve());
  });
  markKept(topology);
  screen.line();
  screen.line(screen.strong('The demo is kept running. In another terminal:'));
  for (const [what, command] of suggestions(stage)) {
    screen.line(screen.faint(`  # ${what}`));
    screen.line(`  ${command}`);
  }
  screen.line(
    screen.strong('Ctrl-C here, or `npm run demo -- --remove` there, removes everything.'),
  );
  // Children keep the event loop alive only as long as they live.
  const alive = setInterval(() => undefined, 1 << 30);
  await signalled;
  clearInterval(alive);
}

function suggestions(stage: Stage): readonly (readonly [what: string, command: string])[] {
  const { runDir, bpfRoot, manifests } = stage.instance;
  const { address, port } = serviceTarget(stage, 'web');
  const fairlead = compiledPath('main.js');
  const client = mainClient(stage).sandbox;
  const connect = insideSandbox(client, ['bash', '-c', `head -n 1 < /dev/tcp/${address}/${port}`]);
  return [
    ['is it in sync?', `${fairlead} status --run-dir ${runDir}`],
    ['frontends, backends, connections', `${fairlead} services --run-dir ${runDir} -o wide`],
    [`connect from the pod ${client.name}, and see who answers`, connect.map(shellWord).join(' ')],
    ['change something: the kernel follows', `$EDITOR ${join(manifests.path, 'services.yaml')}`],
    ['the map the programs read', `bpftool map dump pinned ${join(bpfRoot, 'maps/fl_frontend4')}`],
  ];
}

const shellWord = (word: string): string =>
  /^[\w./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
