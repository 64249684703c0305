// SPDX-License-Identifier: Apache-2.0
import { CORE_SCHEMA, load, loadAll } from 'js-yaml';

/** One document, of any type, as JSON.parse. */
export const parseYaml = (text: string) =>
  JSON.parse(JSON.stringify(load(text, { schema: CORE_SCHEMA })));

/** All documents of a text. */
export const parseYamls = <T>(text: string): readonly T[] =>
  loadAll(text, null, { schema: CORE_SCHEMA }) as T[];
