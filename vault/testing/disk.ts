import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** The disk under a test: everything that this process writes to files goes through it. */
export interface HeldDisk {
  /** Bytes that may still be written; more is ENOSPC, after as much as there is room for. */
  room: number
  /** Every flush is EIO. */
  failsFlush: boolean
}

interface Test {
  teardown(work: () => unknown): unknown
}

const disk: HeldDisk = { room: Number.POSITIVE_INFINITY, failsFlush: false }
/** Standard input, output and errors are none of it. */
const firstFile = 3

const full = () => Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
const broken = () => Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })

/** As much as there is room for, which is then used up. */
function takeRoom(descriptor: number, bytes: number): number {
  if (descriptor < firstFile || disk.room === Number.POSITIVE_INFINITY) return bytes
  const taken = Math.min(bytes, disk.room)
  disk.room -= taken
  if (taken === 0 && bytes > 0) throw full()
  return taken
}

const { write, writeSync, fdatasync, fsyncSync } = fs

type Write = (
  descriptor: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  position: number | null,
  done: (error: Error | null, written: number, bytes: Uint8Array) => void,
) => void

const heldWrite: Write = (descriptor, bytes, offset, length, position, done) => {
  try {
    write(descriptor, bytes, offset, takeRoom(descriptor, length), position, done)
  } catch (error) {
    process.nextTick(done, error, 0, bytes)
  }
}

Object.assign(fs, {
  // Its own property says under which names a promise gives what it calls back with.
  write: Object.assign(
    heldWrite,
    Object.fromEntries(Object.getOwnPropertySymbols(write).map((s) => [s, Reflect.get(write, s)])),
  ),
  writeSync: (descriptor: number, bytes: Uint8Array, offset = 0, length = bytes.length - offset) =>
    writeSync(descriptor, bytes, offset, takeRoom(descriptor, length)),
  fdatasync: (descriptor: number, done: (error: Error | null) => void) =>
    disk.failsFlush ? process.nextTick(done, broken()) : fdatasync(descriptor, done),
  fsyncSync: (descriptor: number) => {
    if (disk.failsFlush) throw broken()
    fsyncSync(descriptor)
  },
})
syncBuiltinESMExports()

/**
 * A disk that a test can fill and break; it has room and works when the test ends. Import what is under test after this
 * module, by `await import(…)`: it takes the functions of `node:fs` when it is loaded.
 */
export function holdDisk(t: Test): HeldDisk {
  t.teardown(() => Object.assign(disk, { room: Number.POSITIVE_INFINITY, failsFlush: false }))
  return disk
}
