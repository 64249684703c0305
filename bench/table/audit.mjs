// SPDX-License-Identifier: Apache-2.0
// The table of bench/bpf/conn_table.h at rest, read from its memory: every record is where its key leads, and one reply leads to it.
const SLOTS = 7;
const BUSY = 0x80000000;
const TOMB = 0x40000000;
const SECRET = 7n;
const MASK = (1n << 64n) - 1n;
const RECORD = 64;

function mix(value) {
  let hash = value ^ (value >> 33n);
  hash = (hash * 0xff51afd7ed558ccdn) & MASK;
  hash ^= hash >> 33n;
  hash = (hash * 0xc4ceb9fe1a85ec53n) & MASK;
  return hash ^ (hash >> 33n);
}

/** [source, destination, source port, destination port, protocol], as the bytes of the record have them. */
function hashOf([source, destination, sourcePort, destinationPort, protocol]) {
  const ports = (BigInt(sourcePort) << 48n) | (BigInt(destinationPort) << 32n) | BigInt(protocol);
  return mix(mix(((BigInt(source) << 32n) | BigInt(destination)) ^ SECRET) ^ ports);
}

const tagOf = (hash) => Number((hash >> 32n) & 0x3fffffffn) || 1;

function bucketsOf(hash, buckets) {
  const first = Number(hash & 0xffffffffn);
  const second = first ^ (Math.imul(tagOf(hash), 0x5bd1e995) | 1);
  return [(first & (buckets - 1)) >>> 0, (second & (buckets - 1)) >>> 0];
}

/** @returns what is wrong, a line each */
export function audit(object, expected) {
  const [clients, replies, records] = ['fl_client', 'fl_reply', 'fl_conn'].map(
    (name) => new DataView(object.map(name).mmap()),
  );
  const buckets = clients.byteLength / (4 * (SLOTS + 1));
  const wrong = [];
  const seen = new Set();
  const elsewhere = { client: new Map(), reply: new Map() };
  const count = (map, bucket) => map.set(bucket, (map.get(bucket) ?? 0) + 1);
  const clientWord = (bucket, slot) => clients.getUint32(4 * ((SLOTS + 1) * bucket + slot), true);
  const replyWord = (bucket, slot) => replies.getBigUint64(8 * ((SLOTS + 1) * bucket + slot), true);

  const claim = (what, tuple) => {
    const key = `${what} ${tuple.join()}`;
    if (seen.has(key)) wrong.push(`twice: ${key}`);
    seen.add(key);
    return hashOf(tuple);
  };
  const lookAt = (bucket, slot, word) => {
    const index = bucket * SLOTS + slot;
    const u32 = (at) => records.getUint32(index * RECORD + at, true);
    const u16 = (at) => records.getUint16(index * RECORD + at, true);
    const request = [u32(0), u32(4), u16(8), u16(10), u32(12)];
    const hash = claim('request', request);
    const own = bucketsOf(hash, buckets);
    if (tagOf(hash) !== word || !own.includes(bucket)) wrong.push(`misplaced: ${request}`);
    if (own[0] !== bucket) count(elsewhere.client, own[0]);
    const reply = [u32(16), u32(20), u16(24), u16(26), u32(12)];
    const replyHash = claim('reply', reply);
    const wanted = (BigInt(tagOf(replyHash)) << 32n) | BigInt(index);
    const [first, second] = bucketsOf(replyHash, buckets);
    const found = [first, second].filter((at) =>
      Array.from({ length: SLOTS }, (_, one) => replyWord(at, one)).includes(wanted),
    );
    if (found.length !== 1) wrong.push(`${found.length} replies lead to ${request}`);
    if (found[0] === second && first !== second) count(elsewhere.reply, first);
  };

  let published = 0;
  let replyWords = 0;
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    for (let slot = 0; slot < SLOTS; slot += 1) {
      const word = clientWord(bucket, slot);
      const tag = Number(replyWord(bucket, slot) >> 32n);
      if (tag !== 0 && (tag & TOMB) === 0) replyWords += 1;
      if (word & BUSY) wrong.push(`busy for ever: slot ${slot} of ${bucket}`);
      if (word === 0 || word & (BUSY | TOMB)) continue;
      published += 1;
      lookAt(bucket, slot, word);
    }
  }
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const inClients = clientWord(bucket, SLOTS) === (elsewhere.client.get(bucket) ?? 0);
    const inReplies = Number(replyWord(bucket, SLOTS)) === (elsewhere.reply.get(bucket) ?? 0);
    if (!inClients || !inReplies) wrong.push(`what is elsewhere of ${bucket} is miscounted`);
  }
  if (published !== expected) wrong.push(`${published} records, not ${expected}`);
  if (replyWords !== published) wrong.push(`${replyWords} replies for ${published} records`);
  return wrong;
}
