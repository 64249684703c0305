// SPDX-License-Identifier: Apache-2.0
// Which object of the API is meant, as text.
import type { ObjectRef } from './types.ts';

/** `Service default/web`, `Node n1`: for logs and keys. */
export function refText({ kind, namespace, name }: ObjectRef): string {
  return namespace === '' ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}
