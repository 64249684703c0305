// SPDX-License-Identifier: Apache-2.0
// Protobuf decoded by hand into the same pruned objects that the product keeps, skipping what it drops.
// Only for reflect.bench.mjs: docs/adr/0010-json-or-protobuf.md says why the product reads JSON.

/** Walks the fields of one message; the caller takes what it knows and skips the rest. */
class Reader {
  /** @param {Buffer} bytes @param {number} at @param {number} end */
  constructor(bytes, at, end) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.number = 0;
    this.wire = 0;
  }

  next() {
    if (this.at >= this.end) return false;
    const tag = this.varint();
    this.number = tag >>> 3;
    this.wire = tag & 7;
    return true;
  }

  varint() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  skip() {
    if (this.wire === 0) this.varint();
    else if (this.wire === 2) {
      const length = this.varint();
      this.at += length;
    } else this.at += this.wire === 1 ? 8 : 4;
  }

  text() {
    const length = this.varint();
    const start = this.at;
    this.at += length;
    return this.bytes.utf8Slice(start, this.at);
  }

  message() {
    const length = this.varint();
    const start = this.at;
    this.at += length;
    return new Reader(this.bytes, start, this.at);
  }
}

/** @typedef {(value: string) => string} Intern */

/** @param {Reader} reader @param {Record<string, string>} into */
function mapEntry(reader, into) {
  let key = '';
  let value = '';
  while (reader.next()) {
    if (reader.number === 1) key = reader.text();
    else value = reader.text();
  }
  into[key] = value;
}

/** @param {Reader} reader @param {Intern} intern */
function metadata(reader, intern) {
  const found = {
    name: '',
    namespace: '',
    uid: '',
    resourceVersion: '',
    creationTimestamp: /** @type {string | undefined} */ (undefined),
    labels: /** @type {Record<string, string>} */ ({}),
    annotations: /** @type {Record<string, string>} */ ({}),
  };
  while (reader.next()) {
    if (reader.number === 1) found.name = reader.text();
    else if (reader.number === 3) found.namespace = intern(reader.text());
    else if (reader.number === 5) found.uid = reader.text();
    else if (reader.number === 6) found.resourceVersion = reader.text();
    else if (reader.number === 8) {
      const time = reader.message();
      time.next();
      found.creationTimestamp = new Date(time.varint() * 1000).toISOString();
    } else if (reader.number === 11) mapEntry(reader.message(), found.labels);
    else if (reader.number === 12) mapEntry(reader.message(), found.annotations);
    else reader.skip();
  }
  return found;
}

const SHARED = [0, 1, 2, 3, 4, 5, 6, 7].map((bits) =>
  Object.freeze({ ready: (bits & 1) > 0, serving: (bits & 2) > 0, terminating: (bits & 4) > 0 }),
);

/** @param {Reader} reader */
function conditions(reader) {
  let bits = 0;
  while (reader.next()) bits |= reader.varint() << (reader.number - 1);
  return SHARED[bits];
}

/** @param {Reader} reader @param {Intern} intern */
function endpoint(reader, intern) {
  const addresses = [];
  const found = { addresses, conditions: SHARED[0], nodeName: '', zone: '', hints: undefined };
  while (reader.next()) {
    if (reader.number === 1) addresses.push(reader.text());
    else if (reader.number === 2) found.conditions = conditions(reader.message());
    else if (reader.number === 6) found.nodeName = intern(reader.text());
    else if (reader.number === 7) found.zone = intern(reader.text());
    else reader.skip();
  }
  return found;
}

/** @param {Reader} reader */
function port(reader) {
  const found = { name: '', protocol: '', port: 0 };
  while (reader.next()) {
    if (reader.number === 1) found.name = reader.text();
    else if (reader.number === 2) found.protocol = reader.text();
    else if (reader.number === 3) found.port = reader.varint();
    else reader.skip();
  }
  return found;
}

/** @param {Reader} reader @param {Intern} intern */
export function readSlice(reader, intern) {
  const endpoints = [];
  const ports = [];
  const found = { metadata: {}, addressType: '', ports, endpoints };
  while (reader.next()) {
    if (reader.number === 1) found.metadata = metadata(reader.message(), intern);
    else if (reader.number === 2) endpoints.push(endpoint(reader.message(), intern));
    else if (reader.number === 3) ports.push(port(reader.message()));
    else if (reader.number === 4) found.addressType = intern(reader.text());
    else reader.skip();
  }
  return found;
}

/** @param {Reader} reader */
function spec(reader) {
  const found = {
    ports: [],
    clusterIP: '',
    type: '',
    sessionAffinity: '',
    clusterIPs: [],
    ipFamilies: [],
    internalTrafficPolicy: '',
  };
  while (reader.next()) {
    if (reader.number === 1) found.ports.push(port(reader.message()));
    else if (reader.number === 3) found.clusterIP = reader.text();
    else if (reader.number === 4) found.type = reader.text();
    else if (reader.number === 7) found.sessionAffinity = reader.text();
    else if (reader.number === 18) found.clusterIPs.push(reader.text());
    else if (reader.number === 19) found.ipFamilies.push(reader.text());
    else if (reader.number === 22) found.internalTrafficPolicy = reader.text();
    else reader.skip();
  }
  return found;
}

/** @param {Reader} reader @param {Intern} intern */
export function readService(reader, intern) {
  const found = { metadata: {}, spec: {}, status: {} };
  while (reader.next()) {
    if (reader.number === 1) found.metadata = metadata(reader.message(), intern);
    else if (reader.number === 2) found.spec = spec(reader.message());
    else reader.skip();
  }
  return found;
}

/** One list body -> its items and its continue token. @param {Buffer} body */
export function readList(body, readItem, intern) {
  const unknown = new Reader(body, 4, body.length);
  const items = [];
  let token = '';
  while (unknown.next()) {
    if (unknown.number !== 2) {
      unknown.skip();
      continue;
    }
    const list = unknown.message();
    while (list.next()) {
      if (list.number === 2) items.push(readItem(list.message(), intern));
      else if (list.number === 1) {
        const meta = list.message();
        while (meta.next()) {
          if (meta.number === 3) token = meta.text();
          else meta.skip();
        }
      } else list.skip();
    }
  }
  return { items, token };
}
