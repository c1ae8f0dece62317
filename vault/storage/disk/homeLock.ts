import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { VaultError } from '../../errors/error.ts'
import { fileMode, unwritable } from './files.ts'

/** The name of a lock. */
const form = /^lock\.(\d{1,15})$/

/** How often the holder of a lock touches its file, in ms. */
const BEAT_MS = 1_000
/** A lock of another kernel whose file is not touched for this many beats in a row has no holder any more. */
const MISSED_BEATS = 10

/** The process that took a lock. */
interface Owner {
  readonly pid: number
  /** A pid is used again; the moment at which its process began is not, on one boot. Empty where the system does not say. */
  readonly startedAt: string
  /** Containers can have boot ids of their own: a different one says nothing about the process. */
  readonly bootId: string
  /** The pids of another namespace mean nothing here. */
  readonly pidNamespace: string
  /** Tells the locks of one process apart. */
  readonly nonce: string
}

export interface HomeLock {
  /** Lets another process take the folder. */
  release(): void
  /** False once another process has taken the folder from this one, which stood still for longer than the heartbeat allows. */
  isOurs(): boolean
  /** Calls back once, when another process has taken the folder. */
  onLost(listener: () => void): void
}

export interface LockOptions {
  /** Waits between two reads of a heartbeat; for tests. */
  readonly betweenReads?: () => Promise<unknown>
}

/**
 * Takes a folder for this process. Two writers of one vault would each number the same log entries and each count
 * its own half of a budget.
 *
 * Node has no flock. Here a lock is a file `lock.N` that appears whole (link) and only once; the process with the
 * highest N has the folder. A lock whose process has ended, or that says `released`, is followed by N+1, never removed
 * first: of several processes that find it at once, the link lets one through.
 *
 * Under the same kernel and in the same PID namespace the process of a lock is asked for. On another host or in another
 * container that can't be done, so the holder touches its file every second, and a lock that is not touched for ten
 * seconds is taken over. No clocks are compared.
 *
 * @throws `VAULT_IN_USE` when another process has the folder, or the lock file is damaged
 */
export async function takeHome(home: string, options: LockOptions = {}): Promise<HomeLock> {
  const { betweenReads = () => wait(BEAT_MS) } = options
  const text = encode({ ...processOf(process.pid, 'self'), nonce: randomBytes(8).toString('hex') })
  for (;;) {
    const newest = locksIn(home).at(-1) ?? 0
    if (newest > 0 && !(await isAbandoned(nameOf(home, newest), betweenReads))) throw inUse(home, newest)
    const mine = newest + 1
    if (!makeLock(home, mine, text)) continue
    // A slow process may have made a number that others have passed and removed since it read the folder.
    if (locksIn(home).at(-1) !== mine) {
      rmSync(nameOf(home, mine), { force: true })
      continue
    }
    for (const older of locksIn(home)) if (older < mine) rmSync(nameOf(home, older), { force: true })
    return hold(home, mine)
  }
}

function hold(home: string, number: number): HomeLock {
  const file = nameOf(home, number)
  let lost = () => {}
  const beats = setInterval(() => {
    if (isThere(file)) return touch(file)
    clearInterval(beats)
    lost()
  }, BEAT_MS).unref()
  return {
    isOurs: () => isThere(file),
    onLost: (listener) => void (lost = listener),
    release() {
      clearInterval(beats)
      try {
        if (isThere(file)) replaceLock(home, number, 'released')
      } catch {
        // A full disk: the lock is free once this process has ended.
      }
    },
  }
}

/** The process that takes a folder over removes the older locks before it reads anything else. */
function isThere(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined
  } catch {
    // A disk that fails for a moment takes the lock from no process.
    return true
  }
}

function touch(file: string): void {
  const now = new Date()
  try {
    utimesSync(file, now, now)
  } catch {
    // The next beat may succeed.
  }
}

async function isAbandoned(file: string, betweenReads: () => Promise<unknown>): Promise<boolean> {
  const first = readBeat(file)
  if (first === undefined || first.text === 'released') return true
  const owner = decode(first.text)
  // Locks appear whole, so a text of another form is damage, and its process can't be found.
  if (owner === undefined) return false
  if (isVisible(owner)) return hasEnded(owner)
  for (let read = 0; read < MISSED_BEATS; read++) {
    await betweenReads()
    const now = readBeat(file)
    if (now === undefined || now.text === 'released') return true
    if (now.text !== first.text || now.beatAtMs !== first.beatAtMs) return false
  }
  return true
}

/** Opened each time: a network file system answers from its cache for a file that is only looked up. */
function readBeat(file: string): { readonly text: string; readonly beatAtMs: number } | undefined {
  let opened: number
  try {
    opened = openSync(file, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return { text: readFileSync(opened, 'utf8').trim(), beatAtMs: fstatSync(opened).mtimeMs }
  } finally {
    closeSync(opened)
  }
}

const inUse = (home: string, number: number): VaultError => {
  const { pid = '(unknown)' } = decode(readOr(nameOf(home, number))) ?? {}
  return new VaultError(
    'VAULT_IN_USE',
    `Expected the vault in ${home} to be closed, but process ${pid} has it open, as lock.${number} says. ` +
      'Stop that process. If it is certain that no process is left, on this machine or another one, remove the lock file.',
  )
}

function makeLock(home: string, number: number, text: string): boolean {
  const unfinished = join(home, `.lock.${process.pid}.${randomBytes(6).toString('hex')}`)
  try {
    writeFileSync(unfinished, text, { mode: fileMode, flag: 'wx' })
    linkSync(unfinished, nameOf(home, number))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw unwritable(home, error)
  } finally {
    rmSync(unfinished, { force: true })
  }
}

/** The number stays taken after a release: a process that read the folder before must not take a lower one for free. */
function replaceLock(home: string, number: number, text: string): void {
  const unfinished = join(home, `.lock.${process.pid}.${randomBytes(6).toString('hex')}`)
  writeFileSync(unfinished, text, { mode: fileMode, flag: 'wx' })
  renameSync(unfinished, nameOf(home, number))
}

/** With a checksum: a changed pid would look like a process that has ended. */
function encode(owner: Owner): string {
  const body = JSON.stringify(owner)
  return `${body} ${createHash('sha256').update(body).digest('hex')}`
}

function decode(text: string): Owner | undefined {
  try {
    const owner = JSON.parse(text.slice(0, text.lastIndexOf(' '))) as Owner
    return encode(owner) === text ? owner : undefined
  } catch {
    return undefined
  }
}

/** Whether a process of a lock can be asked for: it runs under this kernel, and its pid means the same here. */
const isVisible = ({ bootId, pidNamespace }: Owner): boolean =>
  bootId !== '' && bootId === readOr(bootIdFile) && pidNamespace === ownNamespace()

const hasEnded = ({ pid, startedAt }: Owner): boolean => startOf(String(pid)) !== startedAt

function processOf(pid: number, entry: string): Omit<Owner, 'nonce'> {
  return { pid, startedAt: startOf(entry), bootId: readOr(bootIdFile), pidNamespace: ownNamespace() }
}

const bootIdFile = '/proc/sys/kernel/random/boot_id'

/** Field 22 of /proc/PID/stat, behind the name in brackets, which may hold anything; a zombie counts as ended. */
function startOf(entry: string): string {
  const fields = readOr(`/proc/${entry}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? '')
}

function ownNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}

function nameOf(home: string, number: number): string {
  return join(home, `lock.${number}`)
}

function locksIn(home: string): number[] {
  return readdirSync(home)
    .flatMap((name) => form.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
}
