import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isatty } from 'node:tty'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

/** A secret that leaves the vault, and the text that the command prints about it. */
interface Secret {
  readonly secret: string
  readonly shown: object
  /** Name of the secret's field in JSON. */
  readonly name: string
  /** What a person with the secret can do. */
  readonly warning: string
}

/** Reserves the file before it requests the secret. If the file cannot be written, the secret is not exported. */
export async function writeSecret(
  to: string,
  output: Output,
  requestValue: () => Promise<Secret>,
): Promise<void> {
  const file = to === '-' ? undefined : resolve(to)
  if (file !== undefined) makePrivateFile(file)
  try {
    const { secret, shown, name, warning } = await requestValue()
    output.warn(warning)
    if (file === undefined) return output.result({ ...shown, [name]: secret }, secret)
    writeFileSync(file, `${secret}\n`)
    output.result({ ...shown, file }, `Written to ${file}.`)
  } catch (error) {
    if (file !== undefined) rmSync(file, { force: true })
    throw error
  }
}

function makePrivateFile(file: string): void {
  try {
    writeFileSync(file, '', { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UsageError(
      code === 'EEXIST'
        ? `The file ${file} already exists. Choose another name.`
        : `Cannot write ${file}: ${code}.`,
    )
  }
}

const MAX_BYTES = 65_536

/** Decoder that throws on invalid UTF-8. With replacement characters, different passwords would become the same. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Decodes the text of a secret, without a leading byte order mark. Undefined for bytes in another encoding, such as
 * Windows-1251 or UTF-16 (which contains NUL bytes).
 */
export function decodeSecret(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * The text of a file with a secret, or of standard input for `-`, without one trailing newline.
 *
 * @param warn receives a sentence when other users may read the file
 * @throws {UsageError} when the text cannot be read, is empty, too large, or not UTF-8
 */
export function readSecretFile(file: string, warn: (text: string) => void): string {
  let bytes: Buffer
  try {
    if (file !== '-') {
      const { mode, size } = statSync(file)
      if (size > MAX_BYTES) throw new UsageError(`Expected at most ${MAX_BYTES} bytes in ${file}.`)
      if ((mode & 0o077) !== 0) warn(`Other users can read ${file}. Set its mode to 0600.`)
    }
    const isTyped = file === '-' && isatty(0)
    if (isTyped) process.stderr.write('Type it here, then press Enter and Ctrl-D.\n')
    // A terminal is opened by its name. After a password prompt, a read of standard input would return without waiting for
    // typed text.
    bytes = readFileSync(isTyped ? '/dev/tty' : file === '-' ? 0 : file)
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Cannot read ${file}: ${(error as NodeJS.ErrnoException).code ?? 'unknown reason'}.`)
  }
  const name = file === '-' ? 'standard input' : file
  const value = decodeSecret(bytes)?.replace(/\r?\n$/, '')
  if (value === undefined)
    throw new UsageError(
      `Expected text in UTF-8, but ${name} is not UTF-8. Save it as UTF-8, and write random bytes as hexadecimal digits.`,
    )
  if (value === '') throw new UsageError(`Expected text in ${name}, but it is empty.`)
  return value
}
