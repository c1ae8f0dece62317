import { open } from 'node:fs/promises'
import { UsageError } from '../../buyer/buyer.ts'
import { decodeSecret } from '../vault/secretFiles.ts'

const MAX_BYTES = 4_096

/**
 * Reads a small file with a secret that must be accessible to the user only (mode 0600), without surrounding space.
 *
 * @param name what the file is, for messages, such as `key file`
 * @throws {UsageError} The message never contains the file's content
 */
export async function readPrivateFile(path: string, name: string): Promise<string> {
  // The file is opened before it is checked, so that the checked file is the one that is read.
  const handle = await open(path, 'r').catch(() => {
    throw new UsageError(`The ${name} cannot be opened.`)
  })
  try {
    const info = await handle.stat()
    if (!info.isFile()) throw new UsageError(`The ${name} is not a regular file.`)
    if (process.platform !== 'win32' && (info.mode & 0o077) !== 0) {
      throw new UsageError(`Other users can access the ${name}. Run chmod 600 on the file first.`)
    }
    if (info.size > MAX_BYTES) throw new UsageError(`The ${name} is too long.`)
    const text = decodeSecret(await handle.readFile())
    if (text === undefined) throw new UsageError(`The ${name} is not UTF-8. Save it as UTF-8.`)
    return text.trim()
  } finally {
    await handle.close()
  }
}
