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
import { VaultError } from '../errors/error.ts'
import { fileMode, unwritable } from './files.ts'

/** File name of a lock, with its number. */
const form = /^lock\.(\d{1,15})$/

/** Interval at which the lock holder touches its file, in ms. */
const BEAT_MS = 1_000
/** Number of missed heartbeats in a row after which a lock that another kernel's process holds counts as abandoned. */
const MISSED_BEATS = 10

/** The process that took a lock. */
interface Owner {
  readonly pid: number
  /**
   * Start time of the process within one boot. It identifies the process, because the system reuses pids. Empty where the
   * system does not report it.
   */
  readonly startedAt: string
  /**
   * Boot id. A different boot id does not prove that the process has ended, because a container can have a boot id of its own.
   */
  readonly bootId: string
  /** PID namespace. A pid of another namespace cannot be checked here. */
  readonly pidNamespace: string
  /** Random value that distinguishes the locks of one process. */
  readonly nonce: string
}

export interface HomeLock {
  /** True if the previous process released the folder, or there was none. */
  readonly wasReleased: boolean
  /** Releases the folder, so that another process can take it. */
  release(): void
  /**
   * False once another process has taken the folder, because this process paused for longer than the heartbeat allows. Work
   * that blocks the event loop calls this regularly, because the call is also a heartbeat.
   */
  isOurs(): boolean
  /** Calls the listener once, when another process has taken the folder. */
  onLost(listener: () => void): void
}

export interface LockOptions {
  /** Waits between two reads of a heartbeat, for tests. */
  readonly betweenReads?: () => Promise<unknown>
}

/**
 * Locks a folder for this process. Two processes that write one vault would use the same numbers for log entries, and each
 * would count only its own part of a budget.
 *
 * Node has no flock, so a lock is a file `lock.N`. A hard link creates the file, so the file is complete from the start, and
 * only one process can create it. The process with the highest N has the folder. If a lock's process has ended, or the lock
 * says `released`, the next process creates N+1. It never removes the old lock first.
 *
 * Under the same kernel and in the same PID namespace, a lock's process is checked directly. On another host or in another
 * container that is impossible, so every lock holder touches its file each second. Another process takes over a lock that was
 * not touched for ten seconds. It does not compare clocks.
 *
 * @throws `VAULT_IN_USE` when another process has the folder, or the lock file is damaged
 */
export async function takeHome(home: string, options: LockOptions = {}): Promise<HomeLock> {
  const { betweenReads = () => wait(BEAT_MS) } = options
  const text = encode({ ...processOf(process.pid, 'self'), nonce: randomBytes(8).toString('hex') })
  for (;;) {
    const newest = locksIn(home).at(-1) ?? 0
    const left = newest === 0 ? 'released' : await leftAs(nameOf(home, newest), betweenReads)
    if (left === 'held') throw inUse(home, newest)
    const mine = newest + 1
    if (!makeLock(home, mine, text)) continue
    // A slow process may have created a number that later processes have already used and removed.
    if (locksIn(home).at(-1) !== mine) {
      rmSync(nameOf(home, mine), { force: true })
      continue
    }
    for (const older of locksIn(home)) if (older < mine) rmSync(nameOf(home, older), { force: true })
    return hold(home, mine, left === 'released')
  }
}

function hold(home: string, number: number, wasReleased: boolean): HomeLock {
  const file = nameOf(home, number)
  let lost = () => {}
  let beatAtMs = performance.now()
  const isOurs = (): boolean => {
    if (!isThere(file)) return false
    if (performance.now() - beatAtMs < BEAT_MS / 2) return true
    beatAtMs = performance.now()
    touch(file)
    return true
  }
  const beats = setInterval(() => {
    if (isOurs()) return
    clearInterval(beats)
    lost()
  }, BEAT_MS).unref()
  return {
    wasReleased,
    isOurs,
    onLost: (listener) => void (lost = listener),
    release() {
      clearInterval(beats)
      try {
        if (isThere(file)) replaceLock(home, number, 'released')
      } catch {
        // On a full disk, the lock becomes free when this process ends.
      }
    },
  }
}

/** Whether the lock file exists. A process that takes a folder over removes the older locks before it reads anything else. */
function isThere(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined
  } catch {
    // After a temporary failure of the disk, the process keeps its lock.
    return true
  }
}

function touch(file: string): void {
  const now = new Date()
  try {
    utimesSync(file, now, now)
  } catch {
    // The next heartbeat may succeed.
  }
}

/** The state in which its process left a lock. */
async function leftAs(
  file: string,
  betweenReads: () => Promise<unknown>,
): Promise<'released' | 'abandoned' | 'held'> {
  const first = readBeat(file)
  if (first?.text === 'released') return 'released'
  // The file is gone, so another process is taking the folder now, and records its own state.
  if (first === undefined) return 'abandoned'
  const owner = decode(first.text)
  // Lock files are complete from the start, so another form means damage. The process cannot be identified then.
  if (owner === undefined) return 'held'
  if (isVisible(owner)) return hasEnded(owner) ? 'abandoned' : 'held'
  for (let read = 0; read < MISSED_BEATS; read++) {
    await betweenReads()
    const now = readBeat(file)
    if (now?.text === 'released') return 'released'
    if (now === undefined) return 'abandoned'
    if (now.text !== first.text || now.beatAtMs !== first.beatAtMs) return 'held'
  }
  return 'abandoned'
}

/** Reads a heartbeat. The file is opened each time, because a network file system would answer a plain stat from its cache. */
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

/** The error of a process that finds its lock gone. */
export const homeLost = (): VaultError =>
  new VaultError(
    'VAULT_IN_USE',
    'Another process has opened this vault because this one did not run for too long, or the folder of the vault is gone. ' +
      'The request was not performed. Stop one of the two processes, or put the folder back and restart this one.',
  )

const inUse = (home: string, number: number): VaultError => {
  const { pid = '(unknown)' } = decode(readOr(nameOf(home, number))) ?? {}
  return new VaultError(
    'VAULT_IN_USE',
    `Expected the vault in ${home} to be closed, but process ${pid} has it open, as lock.${number} shows. ` +
      'Stop that process. If you are certain that no process has it open, on this machine or another one, remove the lock file.',
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

/**
 * Replaces a lock's text. The file stays after a release, so that a process that read the folder earlier does not take a lower
 * number as free.
 */
function replaceLock(home: string, number: number, text: string): void {
  const unfinished = join(home, `.lock.${process.pid}.${randomBytes(6).toString('hex')}`)
  writeFileSync(unfinished, text, { mode: fileMode, flag: 'wx' })
  renameSync(unfinished, nameOf(home, number))
}

/** Encodes a lock with a checksum. Without it, a damaged pid would look like a process that has ended. */
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

/**
 * Whether the lock's process can be checked directly, because it runs under this kernel and its pid is valid in this namespace.
 */
const isVisible = ({ bootId, pidNamespace }: Owner): boolean =>
  bootId !== '' && bootId === readOr(bootIdFile) && pidNamespace === ownNamespace()

const hasEnded = ({ pid, startedAt }: Owner): boolean => startOf(String(pid)) !== startedAt

function processOf(pid: number, entry: string): Omit<Owner, 'nonce'> {
  return { pid, startedAt: startOf(entry), bootId: readOr(bootIdFile), pidNamespace: ownNamespace() }
}

const bootIdFile = '/proc/sys/kernel/random/boot_id'

/**
 * Start time from field 22 of /proc/PID/stat. The fields follow the name in parentheses, which may contain any text. A zombie
 * counts as ended.
 */
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
