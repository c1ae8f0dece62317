import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { type OwnerClient, type OwnerClientOptions, openOwnerClient } from './ownerClient.ts'
import { readSecretFile } from './secretFiles.ts'

/** Flags of every vault command. */
export interface CommonFlags {
  readonly home?: string
  readonly socket?: string
  readonly passwordFile?: string
  readonly json?: boolean
}

export const withCommonFlags = (command: Command): Command =>
  command
    .option('--home <dir>', 'folder of the vault (default: $TOLLGATE_VAULT_HOME or ~/.tollgate/vault)')
    .option('--socket <path>', "socket of the vault's owner (default: owner.sock in the folder of the vault)")
    .option(
      '--password-file <file>',
      'file with the password; - reads it from standard input (default: ask for the password)',
    )
    .option('--json', 'print JSON, even on a terminal')

/**
 * Runs a command's work and reports any error.
 *
 * @param stdout for results. It is standard error if a protocol uses standard output
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

/** Runs a command's work with the owner's client, which uses a running vault or the folder itself. */
export const asOwner = (
  flags: CommonFlags,
  work: (client: OwnerClient, output: Output) => Promise<void>,
  stdout?: NodeJS.WriteStream,
): Promise<void> =>
  told(flags, (output) => withOwner(flags, output, work, () => folderPassword(flags, output)), stdout)

/** Like {@link asOwner}, for commands that need a running vault, such as locking. */
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

/** Asks for the password of a folder without a running vault. Undefined without a terminal. */
async function folderPassword(flags: CommonFlags, output: Output): Promise<string | undefined> {
  const given = passwordOf(flags, output)
  if (given !== undefined || !isTerminal()) return given
  return askSecret('No vault is running. Password to open its folder: ')
}

/** Whether a user can read prompts and type answers. */
const isTerminal = (): boolean => process.stdin.isTTY && process.stderr.isTTY

export const passwordOf = (flags: CommonFlags, output: Output): string | undefined =>
  flags.passwordFile === undefined
    ? undefined
    : readSecretFile(flags.passwordFile, (text) => output.warn(text))

/**
 * The password from `--password-file`, or typed on the terminal if there is one.
 *
 * @param kind the user types a new password twice
 * @param flag the flag that names the password's file
 * @throws {UsageError} if there is no password
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
  if (kind === 'new' && (await askSecret('Repeat the new password: ')) !== typed)
    throw new UsageError('The two passwords differ. Nothing was done.')
  return typed
}

/** Longest Unix socket path that every operating system accepts (sun_path), in bytes. */
const LONGEST_SOCKET_PATH = 103

/** The vault's folder, from the flag, from `TOLLGATE_VAULT_HOME`, or `~/.tollgate/vault`. */
export const vaultHome = (
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string => resolve(given ?? env['TOLLGATE_VAULT_HOME'] ?? join(homedir(), '.tollgate', 'vault'))

/** The path of a vault's owner socket. @throws {UsageError} if the path is too long for a socket */
export function ownerSocket(home: string, given: string | undefined): string {
  const path = given === undefined ? join(home, 'owner.sock') : resolve(given)
  if (Buffer.byteLength(path) <= LONGEST_SOCKET_PATH) return path
  throw new UsageError(
    `The path of the owner's socket is longer than ${LONGEST_SOCKET_PATH} bytes: ${path}. Choose a shorter path with --socket.`,
  )
}

interface Terminal {
  readonly stdin: NodeJS.ReadableStream
  readonly stderr: NodeJS.WritableStream
}

/** Reads a line from the terminal without echo. @throws {UsageError} if the user canceled with Ctrl-C or Ctrl-D */
export function askSecret(question: string, { stdin, stderr }: Terminal = process): Promise<string> {
  // Without an output, the line reader does not echo the text.
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
      reject(new UsageError('Canceled before a password was entered.'))
    })
  })
}
