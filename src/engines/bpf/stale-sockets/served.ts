// SPDX-License-Identifier: Apache-2.0
// Whether a stale socket's backend still serves its frontend under another id: it came back, its Service was made
// again, or an audit repaired it. Such a socket works, and is left alone. Pure.
import { type FrontendId, frontendText } from '../../entry.ts';
import { type BackendKey, backendKey } from '../layout/backend-key.ts';
import type { Ledger, PortRecord } from '../state/ledger.ts';
import { narrowText, type StaleSocket } from './socket.ts';

export function isServed(ledger: Ledger, { service, backend }: StaleSocket): boolean {
  const port = portOfFrontend(ledger, service);
  if (port === undefined) return false;
  const address = narrowText(backend.address, service.family);
  return hasBackend(ledger, port, backendKey({ address, port: backend.port }, service.family));
}

/** A Service without backends is one as well. */
export const hasService = (ledger: Ledger, { service }: StaleSocket): boolean =>
  portOfFrontend(ledger, service) !== undefined;

/** A NodePort is known by its port alone. */
function portOfFrontend({ owners }: Ledger, frontend: FrontendId): PortRecord | undefined {
  const own = owners[frontend.family];
  return (
    own.get(frontendText(frontend)) ?? own.get(frontendText({ ...frontend, address: undefined }))
  );
}

/** Those that are active or terminating. */
function hasBackend(ledger: Ledger, { family, backends }: PortRecord, key: BackendKey): boolean {
  const cache = ledger.caches.backend[family];
  return backends.some((id) => cache.key(id) === key);
}
