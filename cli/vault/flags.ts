import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { type OwnerClient, type OwnerClientOptions, openOwnerClient } from './ownerClient.ts'
import { readSecretFile } from './readSecretFile.ts'

/** What every command of the vault takes. */
export interface CommonFlags {
  readonly home?: string
  readonly socket?: string
  readonly passwordFile?: string
  readonly json?: boolean
}

export const withCommonFlags = (command: Command): Command =>
  command
    .option('--home <dir>', "the vault's folder (default: $TOLLGATE_VAULT_HOME or ~/.tollgate/vault)")
    .option('--socket <path>', "the owner's socket (default: owner.sock in that folder)")
    .option('--password-file <file>', 'file with the password (- for standard input), instead of typing it')
    .option('--json', 'print JSON')

/**
 * Runs a command's work and tells whatever it throws.
 *
 * @param stdout where results go; standard error where standard output belongs to somebody else
 */
export async function told(
  flags: CommonFlags,
  work: (output: Output) => Promise<void>,
  stdout: NodeJS.WriteStream = process.stdout,
): Promise<void> {
  const output = createOutput({
    stdout,
    stderr: process.stderr,
    json: flags.json,
    env: process.env,
  })
  try {
    await work(output)
  } catch (error) {
    process.exitCode = output.fail(error)
  }
}

/** Runs a command's work with the owner's client: a running vault, or the folder itself. */
export const asOwner = (
  flags: CommonFlags,
  work: (client: OwnerClient, output: Output) => Promise<void>,
  stdout?: NodeJS.WriteStream,
): Promise<void> =>
  told(flags, (output) => withOwner(flags, output, work, () => folderPassword(flags, output)), stdout)

/** The same for what has no meaning for a folder alone, such as locking. */
export const asOwnerOfRunning = (
  flags: CommonFlags,
  work: (client: OwnerClient, output: Output) => Promise<void>,
): Promise<void> => told(flags, (output) => withOwner(flags, output, work))

async function withOwner(
  flags: CommonFlags,
  output: Output,
  work: (client: OwnerClient, output: Output) => Promise<void>,
  password?: OwnerClientOptions['password'],
): Promise<void> {
  const home = vaultHome(flags.home, process.env)
  const client = await openOwnerClient({
    home,
    socketPath: ownerSocket(home, flags.socket),
    ...(password !== undefined && { password }),
    warn: (text) => output.warn(text),
  })
  try {
    await work(client, output)
  } finally {
    await client.close()
  }
}

/** The password of a folder that no vault runs for; undefined where nobody can type it. */
async function folderPassword(flags: CommonFlags, output: Output): Promise<string | undefined> {
  const given = passwordOf(flags, output)
  if (given !== undefined || !isTerminal()) return given
  return askSecret('No vault is running. Password to open its folder: ')
}

/** Somebody sees questions and can answer them. */
const isTerminal = (): boolean => process.stdin.isTTY && process.stderr.isTTY

export const passwordOf = (flags: CommonFlags, output: Output): string | undefined =>
  flags.passwordFile === undefined
    ? undefined
    : readSecretFile(flags.passwordFile, (text) => output.warn(text))

/**
 * The password of `--password-file`, or what is typed on the terminal when there is one.
 *
 * @param kind a new one is typed twice
 * @param flag the one that names its file
 * @throws {UsageError} when there is none
 */
export async function neededPassword(
  flags: CommonFlags,
  output: Output,
  kind: 'known' | 'new' = 'known',
  flag = '--password-file',
): Promise<string> {
  const given = passwordOf(flags, output)
  if (given !== undefined) return given
  if (!isTerminal()) throw new UsageError(`Expected ${flag} FILE, or - for standard input.`)
  const typed = await askSecret(kind === 'new' ? 'New password: ' : 'Password: ')
  if (kind === 'new' && (await askSecret('The same again: ')) !== typed)
    throw new UsageError('The two passwords differ. Nothing was done.')
  return typed
}

/** Longest path of a Unix socket that every system takes (sun_path). */
const LONGEST_SOCKET_PATH = 103

/** The folder of the vault: what was said, `TOLLGATE_VAULT_HOME`, or `~/.tollgate/vault`. */
export const vaultHome = (
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string => resolve(given ?? env['TOLLGATE_VAULT_HOME'] ?? join(homedir(), '.tollgate', 'vault'))

/** Where the owner's socket of a vault is. @throws {UsageError} when the path is too long for one */
export function ownerSocket(home: string, given: string | undefined): string {
  const path = given === undefined ? join(home, 'owner.sock') : resolve(given)
  if (Buffer.byteLength(path) <= LONGEST_SOCKET_PATH) return path
  throw new UsageError(
    `The path of the owner's socket is longer than ${LONGEST_SOCKET_PATH} bytes: ${path}. Name a shorter one with --socket.`,
  )
}

interface Terminal {
  readonly stdin: NodeJS.ReadableStream
  readonly stderr: NodeJS.WritableStream
}

/** Asks for a line on the terminal and shows nothing of it. @throws {UsageError} when it was left by Ctrl-C or Ctrl-D */
export function askSecret(question: string, { stdin, stderr }: Terminal = process): Promise<string> {
  // The reader would repeat what is typed; it goes nowhere.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 })
  stderr.write(question)
  return new Promise((resolve, reject) => {
    lines.once('line', (line) => {
      resolve(line)
      lines.close()
    })
    lines.once('SIGINT', () => lines.close())
    lines.once('close', () => {
      stderr.write('\n')
      reject(new UsageError('Stopped before a password was given.'))
    })
  })
}
