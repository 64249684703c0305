// SPDX-License-Identifier: Apache-2.0
// A reporter of vitest: errors outside any test, which its JSON report leaves out, as a list beside that report.
import { writeFileSync } from 'node:fs';

export default class Unhandled {
  /** @param {unknown} _modules @param {readonly { message?: string }[]} errors */
  onTestRunEnd(_modules, errors) {
    const file = process.env['FAIRLEAD_UNHANDLED'];
    if (file === undefined) return;
    writeFileSync(file, JSON.stringify(errors.map(({ message }) => message ?? '')));
  }
}
