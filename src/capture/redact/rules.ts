// SPDX-License-Identifier: Apache-2.0
// Rules that programs have printed. Those of proxies keep what they say; of others, what people wrote as a comment is replaced
// word by word. Pure.
import type { Replacing } from './objects.ts';

const OF_A_PROXY = /KUBE-|FAIRLEAD/;
const TABLE = /^table (\S+) (\S+) \{/;
const PROXY_TABLE = /^ip6? (?:kube-proxy|fairlead)$/;
const COMMENT = /(--comment |(?<![\w-])comment (?="))(?:"([^"]*)"|([^"\s]\S*))/g;

export function redactRules(text: string, { names, texts }: Replacing): string {
  let isInProxys = false;
  const word = (one: string): string => texts.address(one) ?? names.hide(one);
  const lines = text.split('\n').map((line) => {
    const [, family, table] = TABLE.exec(line) ?? [];
    if (table !== undefined) isInProxys = PROXY_TABLE.test(`${family} ${table}`);
    if (isInProxys || OF_A_PROXY.test(line)) return line;
    return line.replace(COMMENT, (_, head: string, quoted?: string, bare?: string) => {
      const said = (quoted ?? bare ?? '').replace(/[^\s/:,;]+/g, word);
      return quoted === undefined && !said.includes(' ') ? head + said : `${head}"${said}"`;
    });
  });
  return texts.redact(lines.join('\n'), true);
}
