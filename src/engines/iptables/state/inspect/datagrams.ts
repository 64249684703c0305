// SPDX-License-Identifier: Apache-2.0
// The frontends of UDP and SCTP in what iptables-save has printed, by their lines alone: parsing all rules of ten thousand
// Services takes seconds, for which no start should wait.
import type { Family, Protocol } from '../../../../model/types.ts';
import type { HeldFrontend } from '../../../dataplane.ts';

const RULE =
  /^-A KUBE-(SERVICES|NODEPORTS) (?:-d (\S+)\/\d+ )?-p (udp|sctp) .*--comment "([^\s":]+).* --dport (\d+) -j KUBE-(?:SVC|SVL|EXT|FW)-/;

export const datagramFrontends = (family: Family, saved: string): readonly HeldFrontend[] =>
  saved.split('\n').flatMap((line) => {
    const [, chain, address, protocol = '', service = '', port] = RULE.exec(line) ?? [];
    if (chain === undefined) return [];
    const id = {
      family,
      address: chain === 'NODEPORTS' ? undefined : address,
      port: Number(port),
      protocol: protocol.toUpperCase() as Protocol,
    };
    return [{ dataplane: 'iptables', id, service }];
  });
