import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { StatementSync } from 'node:sqlite'

/** What a folder's files hold at one moment, by their paths in it. */
export type FolderImage = ReadonlyMap<string, Buffer>

/** A moment before a change of a file in the folder, in the middle of a write, or after a flush. */
interface Moment<T> {
  /** What a kill would leave. */
  readonly killed: FolderImage
  /** What a power cut would leave: without the ends of files that were not flushed yet. */
  readonly powerCut: FolderImage
  readonly note: T
}

export interface CrashWatch<T> {
  readonly moments: readonly Moment<T>[]
  stop(): void
}

let watch:
  | { readonly folder: string; readonly take: () => void; readonly flushed: Map<string, number> }
  | undefined

const { writeSync, fsyncSync, renameSync, rmSync, linkSync } = fs
const { run } = StatementSync.prototype

const pathOf = (descriptor: number): string => {
  try {
    return fs.readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return ''
  }
}
const isWatched = (path: string): boolean => watch !== undefined && path.startsWith(`${watch.folder}/`)

function beforeChange(path: string): void {
  if (isWatched(path)) watch!.take()
}

function afterFlush(descriptor: number): void {
  const path = pathOf(descriptor)
  if (!isWatched(path)) return
  watch!.flushed.set(path, fs.fstatSync(descriptor).size)
  // Of files that are flushed at the same time, one is done first.
  watch!.take()
}

function halfOf(
  descriptor: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  position: number | null,
): void {
  const path = pathOf(descriptor)
  if (!isWatched(path)) return
  watch!.take()
  // Written once more, whole, by the write itself; without a position it could not be.
  if (position === null || length < 2) return
  writeSync(descriptor, bytes, offset, length >> 1, position)
  watch!.take()
}

Object.assign(fs, {
  writeSync: (
    descriptor: number,
    bytes: Uint8Array,
    offset = 0,
    length = bytes.length - offset,
    at = null,
  ) => {
    halfOf(descriptor, bytes, offset, length, at)
    return writeSync(descriptor, bytes, offset, length, at)
  },
  fsyncSync: (descriptor: number) => {
    beforeChange(pathOf(descriptor))
    fsyncSync(descriptor)
    afterFlush(descriptor)
  },
  renameSync: (from: string, to: string) => {
    beforeChange(from)
    renameSync(from, to)
    const flushed = watch?.flushed.get(from)
    if (flushed !== undefined) watch!.flushed.set(to, flushed)
  },
  rmSync: (path: string, options?: fs.RmOptions) => {
    beforeChange(path)
    rmSync(path, options)
  },
  linkSync: (from: string, to: string) => {
    beforeChange(to)
    linkSync(from, to)
  },
})
syncBuiltinESMExports()

/** SQLite writes its write-ahead log within the statement that commits, and flushes it then. */
StatementSync.prototype.run = function (this: StatementSync, ...values: Parameters<typeof run>) {
  if (this.sourceSQL !== 'COMMIT' || watch === undefined) return run.apply(this, values)
  watch.take()
  const sizes = new Map(walsOf(watch.folder).map((path) => [path, fs.statSync(path).size]))
  const done = run.apply(this, values)
  for (const path of walsOf(watch.folder)) {
    const { size } = fs.statSync(path)
    const before = sizes.get(path) ?? 0
    watch.flushed.set(path, before + ((size - before) >> 1))
    watch.take()
    watch.flushed.set(path, size)
  }
  return done
} as typeof run

const walsOf = (folder: string): string[] =>
  fs
    .readdirSync(folder)
    .filter((name) => name.endsWith('-wal'))
    .map((name) => join(folder, name))

/**
 * Watches a folder of a test. `noteOf` says what is to be kept with each moment. Import what is under test after this module, by `await import(…)`: it takes the functions of
 * `node:fs` when it is loaded.
 *
 * @param onDisk what a power cut would leave of the folder as it is now; all of it when left out
 */
export function watchCrashes<T>(
  folder: string,
  noteOf: () => T,
  onDisk: FolderImage = fs.existsSync(folder) ? imageOf(folder) : new Map(),
): CrashWatch<T> {
  const moments: Moment<T>[] = []
  const flushed = new Map<string, number>()
  const take = (): void => {
    const killed = imageOf(folder)
    const powerCut = new Map(
      [...killed].map(([name, bytes]) => [
        name,
        bytes.subarray(0, flushed.get(join(folder, name)) ?? bytes.length),
      ]),
    )
    moments.push({ killed, powerCut, note: noteOf() })
  }
  // SQLite flushes the database itself with each change of it.
  for (const [name, bytes] of onDisk) if (!name.endsWith('.db')) flushed.set(join(folder, name), bytes.length)
  watch = { folder, take, flushed }
  return { moments, stop: () => void (watch = undefined) }
}

function imageOf(folder: string): FolderImage {
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
  return new Map(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name)
      return [relative(folder, path), fs.readFileSync(path)]
    }),
  )
}

/** Makes a folder of an image, without its locks: the process that they name lives, because it is the test. */
export function writeImage(folder: string, image: FolderImage): void {
  rmSync(folder, { recursive: true, force: true })
  fs.mkdirSync(folder, { mode: 0o700, recursive: true })
  for (const [name, bytes] of image) {
    if (/^\.?lock\./.test(name)) continue
    const path = join(folder, name)
    fs.mkdirSync(dirname(path), { mode: 0o700, recursive: true })
    fs.writeFileSync(path, bytes, { mode: 0o600 })
  }
}
