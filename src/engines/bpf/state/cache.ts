// SPDX-License-Identifier: Apache-2.0
// The bytes last written to each element, or read from it at start: audits compare the kernel with them.
// Bytes by id rather than an object for each, because a node may have 100,000 of them.
import type { Family } from '../../../model/types.ts';
import { type BackendKey, backendText, readBackendKey } from '../layout/backend-key.ts';
import {
  backendGenerationOffset,
  backendSize,
  backendStateOffset,
  frontendKeySize,
  SIZE,
} from '../layout/layout.ts';

const FIRST_ELEMENTS = 256;

/** Bytes by id, as many as the largest id so far needs. */
class Bytes {
  readonly #stride: number;
  #bytes: Uint8Array;
  #view: DataView;

  constructor(stride: number) {
    this.#stride = stride;
    this.#bytes = new Uint8Array(stride * FIRST_ELEMENTS);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get view(): DataView {
    return this.#view;
  }

  /** Offset of the id's bytes; grows the memory if needed. */
  at(id: number): number {
    const end = (id + 1) * this.#stride;
    if (end > this.#bytes.length) this.#grow(end);
    return id * this.#stride;
  }

  write(id: number, offset: number, bytes: Uint8Array): void {
    const at = this.at(id) + offset;
    this.#bytes.set(bytes, at);
  }

  isSame(id: number, offset: number, bytes: Uint8Array): boolean {
    const at = this.at(id) + offset;
    for (let index = 0; index < bytes.length; index += 1) {
      if (this.#bytes[at + index] !== bytes[index]) return false;
    }
    return true;
  }

  part(id: number, offset: number, length: number): Uint8Array {
    const at = this.at(id) + offset;
    return this.#bytes.subarray(at, at + length);
  }

  /** Grows by half: larger steps would cost more memory than the copies they save. */
  #grow(end: number): void {
    const grown = new Uint8Array(Math.max(end, Math.ceil(this.#bytes.length * 1.5)));
    grown.set(this.#bytes);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** The backends of one family, by backend id. */
export class BackendCache {
  readonly #family: Family;
  readonly #bytes: Bytes;

  constructor(family: Family) {
    this.#family = family;
    this.#bytes = new Bytes(backendSize(family));
  }

  /** Copies the element that starts at `offset`. */
  copy(id: number, from: DataView, offset: number): void {
    const at = this.#bytes.at(id);
    const { view } = this.#bytes;
    for (let byte = 0; byte < backendSize(this.#family); byte += 4) {
      view.setUint32(at + byte, from.getUint32(offset + byte));
    }
  }

  isSame(id: number, from: DataView, offset: number): boolean {
    const at = this.#bytes.at(id);
    for (let byte = 0; byte < backendSize(this.#family); byte += 4) {
      if (this.#bytes.view.getUint32(at + byte) !== from.getUint32(offset + byte)) return false;
    }
    return true;
  }

  key(id: number): BackendKey {
    return readBackendKey(this.#bytes.view, this.#bytes.at(id), this.#family);
  }

  /** `address:port` for people. */
  text(id: number): string {
    return backendText(this.#bytes.view, this.#bytes.at(id), this.#family);
  }

  state(id: number): number {
    return this.#bytes.view.getUint8(this.#bytes.at(id) + backendStateOffset(this.#family));
  }

  isLocal(id: number): boolean {
    const at = this.#bytes.at(id) + backendStateOffset(this.#family) + 1;
    return (this.#bytes.view.getUint8(at) & 1) !== 0;
  }

  generation(id: number): number {
    const at = this.#bytes.at(id) + backendGenerationOffset(this.#family);
    return this.#bytes.view.getUint16(at, true);
  }

  setState(id: number, state: number, isLocal: boolean): void {
    const at = this.#bytes.at(id) + backendStateOffset(this.#family);
    this.#bytes.view.setUint8(at, state);
    this.#bytes.view.setUint8(at + 1, Number(isLocal));
  }
}

const VALUE_AT = 24;

/** The frontends of both families, by frontend id: key and value. */
export class FrontendCache {
  readonly #bytes = new Bytes(VALUE_AT + SIZE.frontend);

  write(id: number, key: Uint8Array, value: Uint8Array): void {
    this.#bytes.write(id, 0, key);
    this.#bytes.write(id, VALUE_AT, value);
  }

  hasValue(id: number, value: Uint8Array): boolean {
    return this.#bytes.isSame(id, VALUE_AT, value);
  }

  /** A view, valid until the next write. */
  key(id: number, family: Family): Uint8Array {
    return this.#bytes.part(id, 0, frontendKeySize(family));
  }

  /** A view, valid until the next write. */
  value(id: number): Uint8Array {
    return this.#bytes.part(id, VALUE_AT, SIZE.frontend);
  }
}
