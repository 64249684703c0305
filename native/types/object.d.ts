// SPDX-License-Identifier: Apache-2.0
// Compiled BPF objects, from their bytes to loaded maps and programs.
import type { BpfMap } from './map.js';
import type { BpfProgram } from './program.js';

/** A compiled object: set up between openObject() and load(), then asked for its maps and programs. ENOENT for a name that it does not have. */
export interface BpfObject {
  /** Sets one `const volatile` variable before load; sizes must be equal. ENOENT if there is none. */
  setRodata(variable: string, value: Uint8Array): void;
  /** Before load: elements, or bytes of a ring buffer. */
  setMaxEntries(map: string, maxEntries: number): void;
  /** Uses the map pinned at `path` instead of a new one; false if there is no such pin. Throws
   *  'INCOMPATIBLE' naming what differs: type, sizes, flags, and, where the kernel keeps the map's BTF,
   *  the first field of key or value whose name, offset or type differs. */
  reusePin(map: string, path: string): boolean;
  /** Uses an open map of another object (same compatibility check). */
  reuseMap(map: string, from: BpfMap): void;
  /** Before load: whether load() loads this program; all are loaded unless told otherwise. */
  setAutoload(program: string, isLoaded: boolean): void;
  /** Before load: enum bpf_attach_type, instead of that of the section. */
  setExpectedAttachType(program: string, attachType: number): void;
  /** BPF_F_* of BPF_PROG_LOAD; those that its section implies are added. */
  setProgramFlags(program: string, flags: number): void;
  /** Throws code 'VERIFIER' (with `log`) if the kernel refuses a program. */
  load(): void;
  /**
   * The same on another thread: the event loop goes on while the kernel verifies. Until it has ended all
   * other methods but close() throw 'STATE'; an object closed meanwhile is let go of at its end.
   */
  loadAsync(): Promise<void>;
  /** Names, those of .rodata, .data and .bss included. */
  readonly maps: readonly string[];
  /** As declared, loaded or not. */
  readonly programs: readonly { readonly name: string; readonly section: string }[];
  /**
   * The fields of key and value of a map as it is declared, by the object's BTF: `path bit width`, separated by commas,
   * each down to what has no fields itself (an array of bytes is one field). Before the load, or after it; empty texts: the
   * declaration has no types.
   */
  mapLayout(map: string): {
    readonly key: string;
    readonly value: string;
    /** As declared, or as set. */
    readonly maxEntries: number;
  };
  /** Handles of their own: they stay valid after the object is closed. */
  map(name: string): BpfMap;
  program(name: string): BpfProgram;
  /** Lets go of what no other handle, link or pin holds. */
  close(): void;
}

/**
 * `bytes` is the file that the compiler has made (ELF with BTF). `name` (default 'object') begins the names of .rodata, .data and .bss maps. `kernelTypes`: BTF in which relocations of
 * fields and types are found, instead of that of the running kernel, for which libbpf takes 11 MiB.
 */
export function openObject(
  bytes: Uint8Array,
  options?: { name?: string; kernelTypes?: Uint8Array },
): BpfObject;

/** Where the compiler has put the members of a struct. */
export interface StructLayout {
  readonly name: string;
  readonly sizeBytes: number;
  readonly fields: readonly {
    readonly name: string;
    readonly offsetBytes: number;
    readonly sizeBytes: number;
    /** Bitfields only: first bit within the struct, and width. */
    readonly bitOffset?: number;
    readonly bitWidth?: number;
  }[];
}

/**
 * Layouts of every named struct (and values of every named enum) in an object's BTF. Members of
 * anonymous structs and unions are listed as the outer struct's own.
 */
export function readBtf(bytes: Uint8Array): {
  readonly structs: readonly StructLayout[];
  readonly enums: readonly {
    readonly name: string;
    readonly values: Readonly<Record<string, number>>;
  }[];
};
