// SPDX-License-Identifier: Apache-2.0
// The image's bill of materials: `npm sbom --sbom-format cyclonedx | node scripts/image/sbom.mjs FOLDER`, where FOLDER has the control
// data of Debian's packages, as dpkg-deb -f prints it. Without time and serial number: the same inputs give the same file.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * @param {any} bom what npm has printed
 * @param {readonly string[]} packages the control data of each
 * @param {string} node its version
 */
function withSystem(bom, packages, node) {
  const { metadata, components, dependencies } = bom;
  const { timestamp, ...kept } = metadata;
  return {
    $schema: bom.$schema,
    ...{ bomFormat: bom.bomFormat, specVersion: bom.specVersion, version: bom.version },
    metadata: {
      ...kept,
      component: { ...metadata.component, type: 'application', name: 'fairlead' },
    },
    components: [...components, ofNode(node), ...packages.map(ofPackage)],
    dependencies,
  };
}

/** @param {string} version */
const ofNode = (version) => ({
  'bom-ref': `node@${version}`,
  type: 'application',
  name: 'node',
  version,
  purl: `pkg:generic/node@${version}`,
  licenses: [{ license: { id: 'MIT' } }],
});

/** @param {string} control */
function ofPackage(control) {
  const [name, version, architecture] = ['Package', 'Version', 'Architecture'].map((field) =>
    fieldOf(control, field),
  );
  const source = /^\S+/.exec(fieldOf(control, 'Source') || name)?.[0];
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&upstream=${source}`;
  return { 'bom-ref': purl, type: 'library', name, version, purl };
}

/** @param {string} control @param {string} field */
const fieldOf = (control, field) => new RegExp(`^${field}: (.*)$`, 'm').exec(control)?.[1] ?? '';

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const folder = process.argv[2] ?? '';
  const packages = readdirSync(folder)
    .sort()
    .map((name) => readFileSync(join(folder, name), 'utf8'));
  const bom = withSystem(JSON.parse(readFileSync(0, 'utf8')), packages, process.versions.node);
  process.stdout.write(`${JSON.stringify(bom, null, 1)}\n`);
}
