import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { UsageError } from '../../buyer/usageError.ts'

export interface OutputFile {
  /** Puts the bytes at the path, all or nothing. */
  keep(body: Uint8Array): Promise<void>
  /** Leaves the path as it was. */
  drop(): Promise<void>
}

/**
 * Makes sure, before anything is paid, that the answer can be written: opens a file beside the path, which takes its name
 * only when it is complete. A file that was there is replaced then, and not before.
 *
 * @throws {UsageError} when the place can not be written
 */
export async function openOutput(path: string): Promise<OutputFile> {
  const part = `${path}.${randomBytes(4).toString('hex')}.part`
  const handle = await open(part, 'wx', 0o600).catch(() => {
    throw new UsageError('The output file can not be written there.')
  })
  const drop = async (): Promise<void> => {
    await handle.close().catch(() => undefined)
    await rm(part, { force: true })
  }
  return {
    async keep(body) {
      try {
        await handle.writeFile(body)
        await handle.sync()
        await handle.close()
        await rename(part, path)
      } catch (error) {
        await drop()
        throw error
      }
    },
    drop,
  }
}
