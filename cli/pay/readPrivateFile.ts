import { open } from 'node:fs/promises'
import { UsageError } from '../../buyer/usageError.ts'
import { decodeSecret } from '../vault/readSecretFile.ts'

const MAX_BYTES = 4_096

/**
 * The text of a small file that holds a secret and must be the user's alone (mode 0600), without space around it.
 *
 * @param name what the file is, for messages: `key file`
 * @throws {UsageError} which never repeats what is in the file
 */
export async function readPrivateFile(path: string, name: string): Promise<string> {
  // Opened first and asked afterwards, so that it is the same file that is checked and read.
  const handle = await open(path, 'r').catch(() => {
    throw new UsageError(`The ${name} can not be opened.`)
  })
  try {
    const info = await handle.stat()
    if (!info.isFile()) throw new UsageError(`The ${name} is not a regular file.`)
    if (process.platform !== 'win32' && (info.mode & 0o077) !== 0) {
      throw new UsageError(`The ${name} is open to others; chmod 600 it first.`)
    }
    if (info.size > MAX_BYTES) throw new UsageError(`The ${name} is too long.`)
    const text = decodeSecret(await handle.readFile())
    if (text === undefined) throw new UsageError(`The ${name} is not UTF-8. Save it as UTF-8.`)
    return text.trim()
  } finally {
    await handle.close()
  }
}
