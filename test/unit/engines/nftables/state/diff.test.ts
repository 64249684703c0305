// SPDX-License-Identifier: Apache-2.0
// What is written over what is there, whoever has made it so.
import { describe, expect, it } from 'vitest';
import { parseTable } from '../../../../../src/engines/nftables/rules/parse.ts';
import type { Wanted } from '../../../../../src/engines/nftables/rules/types.ts';
import { applyDiff } from '../../../../../src/engines/nftables/state/apply.ts';
import { diffTable } from '../../../../../src/engines/nftables/state/diff.ts';
import { scriptOf } from '../../../../../src/engines/nftables/state/script.ts';

const PRINTED = `table ip fairlead {
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.1 . tcp . 443 : goto web,
			     10.96.0.2 . udp . 53 comment "a, b" : drop }
	}

	set affinity-web {
		type ipv4_addr
		size 65535
		flags dynamic,timeout
		timeout 3h
		elements = { 10.1.1.1 timeout 3h expires 2h59m }
	}

	chain nat-output {
		type nat hook output priority -100; policy accept;
		jump services
	}

	chain services {
		ip daddr . meta l4proto . th dport vmap @service-ips
	}

	chain web {
		ip saddr @affinity-web goto web-1
	}

	chain web-1 {
		meta l4proto tcp dnat to 10.1.1.5:8080
	}
}
`;

const wanted = (): Wanted => {
  const held = parseTable(PRINTED);
  return { chains: held.chains, sets: held.sets, elements: held.elements };
};

const repair = (printed: string, meant: Wanted = wanted()): readonly string[] => {
  const held = parseTable(printed);
  const script = scriptOf(diffTable(held, meant, true), 'IPv4', printed !== '');
  applyDiff(held, diffTable(held, meant, true));
  expect(scriptOf(diffTable(held, meant, true), 'IPv4', true)).toBe('');
  return script.split('\n').filter((line) => line !== '');
};

describe('the difference', () => {
  it('is nothing where the table is as it is wanted', () => {
    expect(repair(PRINTED)).toEqual([]);
  });

  it('is all of it after nft flush ruleset, with elements before the rules that name their map', () => {
    const lines = repair('');
    expect(lines[0]).toBe('add table ip fairlead');
    const [element, rule] = ['add element', 'add rule'].map((start) =>
      lines.findIndex((line) => line.startsWith(start)),
    );
    expect(element).toBeGreaterThan(0);
    expect(rule).toBeGreaterThan(element!);
    expect(lines).toContain(
      'add element ip fairlead service-ips { 10.96.0.1 . tcp . 443 : goto web, 10.96.0.2 . udp . 53 comment "a, b" : drop }',
    );
    expect(lines.join()).not.toContain('10.1.1.1');
  });

  it('removes what others have written into the table', () => {
    const foreign = PRINTED.replace('jump services', 'ip daddr 192.0.2.1 drop\n\t\tjump services')
      .replace('\tchain web {', '\tcounter mine {\n\t\tpackets 0 bytes 0\n\t}\n\n\tchain web {')
      .replace(
        '\tchain services {',
        '\tchain theirs {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tjump web\n\t}\n\n\tchain services {',
      )
      .replace('10.96.0.1 .', '10.96.0.9 . tcp . 1 : drop,\n\t\t\t     10.96.0.1 .');
    expect(repair(foreign)).toEqual([
      'flush chain ip fairlead nat-output',
      'flush chain ip fairlead theirs',
      'delete element ip fairlead service-ips { 10.96.0.9 . tcp . 1 : drop }',
      'delete chain ip fairlead theirs',
      'delete counter ip fairlead mine',
      'add rule ip fairlead nat-output jump services',
    ]);
  });

  it('replaces an element of which the value differs', () => {
    expect(repair(PRINTED.replace('443 : goto web', '443 : drop'))).toEqual([
      'delete element ip fairlead service-ips { 10.96.0.1 . tcp . 443 : drop }',
      'add element ip fairlead service-ips { 10.96.0.1 . tcp . 443 : goto web }',
    ]);
  });

  it('makes a set anew that is declared in another way, and the rules that name it', () => {
    expect(repair(PRINTED.replace('timeout 3h\n', 'timeout 1h\n'))).toEqual([
      'flush chain ip fairlead web',
      'delete set ip fairlead affinity-web',
      'add set ip fairlead affinity-web { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 3h; }',
      'add rule ip fairlead web ip saddr @affinity-web goto web-1',
    ]);
  });

  it('makes a chain anew that hooks elsewhere', () => {
    expect(repair(PRINTED.replace('priority -100', 'priority 50'))).toEqual([
      'flush chain ip fairlead nat-output',
      'delete chain ip fairlead nat-output',
      'add chain ip fairlead nat-output { type nat hook output priority -100; policy accept; }',
      'add rule ip fairlead nat-output jump services',
    ]);
  });
});
