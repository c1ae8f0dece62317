import { createHash, randomBytes } from 'node:crypto'
import {
  linkSync,
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
import { VaultError } from '../../errors/error.ts'
import { fileMode } from './files.ts'

const form = /^lock\.(\d{1,15})$/

/** Who holds a lock, so that somebody else can tell whether that process still lives. */
interface Owner {
  readonly pid: number
  /** A pid is used again; when its process began is not, on one boot. Empty where the system does not say. */
  readonly startedAt: string
  readonly bootId: string
  /** Another namespace's pids mean nothing here. */
  readonly pidNamespace: string
  /** Tells the locks of one process apart. */
  readonly nonce?: string
}

export interface HomeLock {
  /** Lets another process open the vault. */
  release(): void
}

export interface BeatingLock extends HomeLock {
  /** Shows that this process lives to those who can't ask about it. False when another has taken the folder from it. */
  beat(): boolean
}

/** A lock of which it can't be told from here whether its process lives. */
export interface ForeignLock {
  /** No two locks are the same. */
  readonly text: string
  /** When it was taken, or its process beat last; in ms, by the clock of whoever holds the file. */
  readonly beatAtMs: number
}

/**
 * Takes the vault's folder for this process. Two writers would each number the same log entries and each count
 * its own half of a budget.
 *
 * Node has no flock. Here a lock is a file `lock.N` that comes into being whole (link) and only once; whoever has the
 * highest N has the folder. A lock whose process is gone, or that says `released`, is followed by N+1, never removed
 * first: of several processes that find it stale at once, the link lets one through.
 *
 * @param abandoned a lock whose process the caller knows to be gone
 * @throws `VAULT_IN_USE` when its process lives, or when that can not be told from here.
 */
export function takeHome(home: string, abandoned?: ForeignLock): BeatingLock {
  const text = encode({ ...ownerOf(process.pid, 'self'), nonce: randomBytes(8).toString('hex') })
  for (;;) {
    const newest = locksIn(home).at(-1) ?? 0
    if (newest > 0) assertGone(home, newest, abandoned?.text)
    const mine = newest + 1
    if (!makeLock(home, mine, text)) continue
    // A slow process may have made a number that others have passed and removed since it looked.
    if (locksIn(home).at(-1) !== mine) {
      rmSync(nameOf(home, mine), { force: true })
      continue
    }
    for (const older of locksIn(home)) if (older < mine) rmSync(nameOf(home, older), { force: true })
    const isMine = () => locksIn(home).at(-1) === mine
    return {
      release: () => void (isMine() && replaceLock(home, mine, 'released')),
      beat: () => isMine() && touch(nameOf(home, mine)),
    }
  }
}

function makeLock(home: string, number: number, text: string): boolean {
  const unfinished = join(home, `.lock.${process.pid}.${randomBytes(6).toString('hex')}`)
  writeFileSync(unfinished, text, { mode: fileMode, flag: 'wx' })
  try {
    linkSync(unfinished, nameOf(home, number))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(unfinished, { force: true })
  }
}

/** The number stays taken after a release: a process that looked before it must not take a lower one for free. */
function replaceLock(home: string, number: number, text: string): void {
  const unfinished = join(home, `.lock.${process.pid}.${randomBytes(6).toString('hex')}`)
  writeFileSync(unfinished, text, { mode: fileMode, flag: 'wx' })
  renameSync(unfinished, nameOf(home, number))
}

function touch(file: string): boolean {
  const now = new Date()
  try {
    utimesSync(file, now, now)
  } catch {
    // A disk that fails for a moment takes the lock from nobody.
  }
  return true
}

/** The lock of the folder, when its process can't be asked about: it is in another PID namespace of this boot. */
export function foreignLockOf(home: string): ForeignLock | undefined {
  const newest = locksIn(home).at(-1)
  const text = newest === undefined ? '' : readOr(nameOf(home, newest))
  const owner = decode(text)
  if (owner === undefined || owner.pidNamespace === ownNamespace()) return undefined
  const info = statSync(nameOf(home, newest!), { throwIfNoEntry: false })
  return info && { text, beatAtMs: info.mtimeMs }
}

function assertGone(home: string, number: number, abandoned: string | undefined): void {
  let text: string
  try {
    text = readFileSync(nameOf(home, number), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  if (text === 'released' || text === abandoned) return
  // Locks come into being whole, so another form is damage, and who holds it can not be told.
  const owner = decode(text)
  if (owner !== undefined && hasEnded(owner)) return
  throw new VaultError(
    'VAULT_IN_USE',
    `Expected nobody to have the vault in ${home} open, but process ${owner?.pid ?? '(unknown)'} has it, as lock.${number} says. ` +
      'Stop that process. If it is certain that none is left, remove the lock file.',
  )
}

/** With a checksum: a changed boot id would look like a machine that was started again. */
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

function hasEnded(owner: Owner): boolean {
  const now = ownerOf(owner.pid, String(owner.pid))
  if (owner.bootId !== now.bootId) return true
  if (owner.pidNamespace !== ownNamespace()) return false
  if (process.platform === 'linux') return now.startedAt !== owner.startedAt
  try {
    process.kill(owner.pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

function ownerOf(pid: number, entry: string): Owner {
  return {
    pid,
    startedAt: startOf(entry),
    bootId: readOr('/proc/sys/kernel/random/boot_id'),
    pidNamespace: ownNamespace(),
  }
}

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
