// SPDX-License-Identifier: Apache-2.0
// The manual page fairlead(8) in the language of man(7). Commands and options come from the program itself.
import type { CommandNode, OptionNode } from './tree.ts';

const EXIT_STATUS: readonly (readonly [code: string, text: string])[] = [
  ['0', 'Success.'],
  ['1', 'Failure: a hook could not be attached, a manifest is not valid, a test failed.'],
  ['2', 'Invalid usage or settings.'],
  [
    '3',
    'Degraded or not in sync: an object is rejected, the kernel differed, no agent is running.',
  ],
  ['4', 'Not found: a Service, a cgroup or an instance that does not exist.'],
  ['5', 'A privilege or a kernel feature is missing.'],
  ['124', 'Timed out.'],
];

const FILES: readonly (readonly [path: string, text: string])[] = [
  ['/sys/fs/bpf/fairlead', 'Pinned maps and links; see --bpf-root.'],
  ['/run/fairlead', 'Admin socket and state; see --run-dir.'],
];

const ENVIRONMENT: readonly (readonly [name: string, text: string])[] = [
  [
    'FAIRLEAD_DEBUG',
    'If set, an error is followed by its details, such as the log of the verifier.',
  ],
  ['NO_COLOR', 'If set, demo prints without colour.'],
];

const EXAMPLES: readonly (readonly [text: string, command: string])[] = [
  [
    'Try the example manifests and take everything back with Ctrl-C:',
    'fairlead run --manifests examples/demo --hostname-override n1 --ephemeral',
  ],
  [
    "Run with kube-proxy's configuration on a node of a cluster:",
    'fairlead run --config /var/lib/kube-proxy/config.conf --hostname-override "$NODE_NAME"',
  ],
  ['Check manifests before they are used:', 'fairlead validate manifests/'],
  ['Wait until the initial sync is complete:', 'fairlead status --wait --timeout 60'],
];

export function manPage(root: CommandNode, version: string): string {
  const name = root.path[0] ?? '';
  return `${[
    '.\\" Made by `fairlead man`; do not edit.',
    `.TH ${name.toUpperCase()} 8 "" "${name} ${version}" "System Administration"`,
    ...section('NAME', [`${name} \\- ${escaped(root.help)}`]),
    ...section('SYNOPSIS', [`.B ${name}`, '.I command', '[\\fIoptions\\fR]']),
    ...section('DESCRIPTION', [
      `.B ${name}`,
      "programs the Services of a Kubernetes cluster, or of a folder of manifests, into the kernel. eBPF programs on socket hooks turn a connection to a Service address into one to a backend before its first packet; programs on network devices translate what arrives as packets. Where the kernel can do neither, or only one of the two, iptables rules in kube-proxy's layout serve instead.",
      '.PP',
      'Links, programs and maps are pinned and outlive the agent:',
      'traffic keeps flowing while it is stopped, replaced or upgraded.',
    ]),
    '.SH COMMANDS',
    ...root.commands.flatMap((command) => commandText(command)),
    ...list('EXIT STATUS', EXIT_STATUS),
    ...list('ENVIRONMENT', ENVIRONMENT),
    ...list('FILES', FILES),
    '.SH EXAMPLES',
    ...EXAMPLES.flatMap(([text, command]) => [
      '.PP',
      escaped(text),
      '.PP',
      '.RS',
      '.nf',
      escaped(command),
      '.fi',
      '.RE',
    ]),
    ...section('SEE ALSO', ['.BR bpftool (8),', '.BR ip\\-netns (8),', '.BR cgroups (7)']),
  ].join('\n')}\n`;
}

const section = (title: string, lines: readonly string[]): readonly string[] => [
  `.SH ${title}`,
  ...lines,
];

const list = (title: string, rows: readonly (readonly [string, string])[]): readonly string[] => [
  `.SH ${title}`,
  ...rows.flatMap(([term, text]) => ['.TP', `.B ${escaped(term)}`, escaped(text)]),
];

/** A command group has no action; its commands are listed separately. */
function commandText({ path, args, help, options, commands }: CommandNode): readonly string[] {
  const names = path.join(' ');
  const synopsis = [`.SS ${escaped([names, ...args].join(' '))}`, escaped(sentence(help))];
  if (commands.length > 0) return [...synopsis, ...commands.flatMap(commandText)];
  return [...synopsis, ...options.filter(({ long }) => long !== '--help').flatMap(optionText)];
}

function optionText({ short, long, placeholder, help, choices }: OptionNode): readonly string[] {
  const names = [short, long]
    .filter((name) => name !== undefined)
    .map((name) => `\\fB${escaped(name)}\\fR`);
  const value = placeholder === '' ? '' : ` \\fI${escaped(placeholder)}\\fR`;
  const isListed = choices.length > 0 && !choices.every((choice) => help.includes(choice));
  const among = isListed ? `; one of ${choices.join(', ')}` : '';
  return ['.TP', `${names.join(', ')}${value}`, escaped(sentence(`${help}${among}`))];
}

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.)]$/.test(text) && !text.endsWith(')') ? '' : '.'}`;

/** A line that begins with a dot or a quote would be a request; a bare hyphen may become a dash. */
function escaped(text: string): string {
  const safe = text.replaceAll('\\', '\\e').replaceAll('-', '\\-');
  return /^[.']/.test(safe) ? `\\&${safe}` : safe;
}
