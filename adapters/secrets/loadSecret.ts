import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { flush } from '../flush.ts'

const secretBytes = 32
const variable = 'TOLLGATE_SECRET'

export interface SecretSource {
  /** The file with the secret, used if the environment has none. If the file is missing, it is created with a random secret. */
  readonly file: string
  /** The environment, usually `process.env`. `TOLLGATE_SECRET` takes precedence over the file. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * Returns the server's secret of 32 bytes or more. Everything sealed in the database, every API key's hash and every review token
 * depends on it. The secret comes from `TOLLGATE_SECRET` (hex, base64 or base64url), or else from the file. The file is created
 * completely or not at all, and only its owner can read it. If several processes start at once, one of them creates the file and
 * all get the same secret.
 *
 * @throws when the secret is too short or unreadable. The message never contains the secret.
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
    // A link fails if the name exists. A rename would replace the secret that another process just created.
    linkSync(unfinished, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(unfinished, { force: true })
  }
  // The secret must survive a power failure, because the data sealed with it does.
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
      `Create one with: openssl rand -hex ${secretBytes}`,
  )
}
