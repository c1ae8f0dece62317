import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { flush } from '../flush.ts'

const secretBytes = 32
const variable = 'TOLLGATE_SECRET'

export interface SecretSource {
  /** Where the secret is kept when the environment has none; made with a random one when missing. */
  readonly file: string
  /** The environment, usually `process.env`. `TOLLGATE_SECRET` wins over the file. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * The server's secret, 32 bytes or more: everything sealed in the database, every API key's hash and every review token
 * hangs on it. From `TOLLGATE_SECRET` (hex, base64 or base64url), else from the file.
 *
 * The file is made whole or not at all, readable by its owner only; of several processes that start at once, one makes
 * it and all of them get the same secret.
 *
 * @throws when the secret is too short or unreadable. The message never contains it.
 */
export function loadSecret({ file, env }: SecretSource): Buffer {
  const fromEnv = env[variable]
  if (fromEnv !== undefined) return decode(fromEnv, variable)
  const present = read(file)
  if (present !== undefined) return decode(present, file)
  create(file)
  return decode(read(file) ?? '', file)
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function create(file: string): void {
  const folder = dirname(file)
  mkdirSync(folder, { recursive: true })
  const unfinished = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  try {
    write(unfinished, `${randomBytes(secretBytes).toString('hex')}\n`)
    // A link fails when the name is taken, where a rename would replace the secret that another process just made.
    linkSync(unfinished, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(unfinished, { force: true })
  }
  // The secret must outlive a power cut: what is sealed with it will.
  flush(folder)
}

function write(file: string, text: string): void {
  const opened = openSync(file, 'wx', 0o600)
  try {
    writeSync(opened, text)
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}

function decode(text: string, source: string): Buffer {
  const trimmed = text.trim()
  const bytes = /^(?:[0-9a-f]{2})+$/i.test(trimmed)
    ? Buffer.from(trimmed, 'hex')
    : /^[\w+/-]+={0,2}$/.test(trimmed)
      ? Buffer.from(trimmed, 'base64url')
      : undefined
  if (bytes !== undefined && bytes.length >= secretBytes) return bytes
  const got = trimmed === '' ? 'nothing' : bytes === undefined ? 'other characters' : `${bytes.length} bytes`
  throw new Error(
    `Expected ${source} to hold ${secretBytes} random bytes or more as hex or base64url, got ${got}. ` +
      `Make one with: openssl rand -hex ${secretBytes}`,
  )
}
