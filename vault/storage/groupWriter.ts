import { close, fdatasync, write } from 'node:fs'
import { promisify } from 'node:util'
import { VaultError } from '../errors/error.ts'

const writeFile = promisify(write)
const flushFile = promisify(fdatasync)
const closeFile = promisify(close)

/** Where the next batch goes. */
export interface WriteTarget {
  readonly descriptor: number
  readonly offset: number
  /** True when the target holds the batch already, because it was written from the state that includes it. */
  readonly holdsBatch?: boolean
}

interface Waiting {
  readonly bytes: Uint8Array
  readonly done: () => void
  readonly failed: (error: Error) => void
}

/**
 * Appends to one file; what is appended in one loop turn, or while a flush is under way, shares the next flush. One
 * fdatasync costs about 250 µs whatever it covers, so writers wait for each other's flush and not in line.
 *
 * After a failed write or flush nothing is appended any more: the kernel may have dropped the pages that it could not
 * write, and a second fdatasync would say that all is well.
 */
export class GroupWriter {
  readonly #name: string
  readonly #redirect: ((batch: readonly Uint8Array[], offset: number) => WriteTarget | undefined) | undefined
  #descriptor: number
  #offset: number
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined
  #failure: VaultError | undefined
  #closed = false

  /**
   * @param name what errors call the file
   * @param redirect asked before each batch, synchronously: undefined to go on, or another file to go on in. The old
   *        descriptor is closed.
   */
  constructor(
    name: string,
    target: WriteTarget,
    redirect?: (batch: readonly Uint8Array[], offset: number) => WriteTarget | undefined,
  ) {
    this.#name = name
    this.#descriptor = target.descriptor
    this.#offset = target.offset
    this.#redirect = redirect
  }

  /** Fulfilled when the bytes are on disk, in the order of the calls. @throws `STORAGE_UNAVAILABLE` as a rejection. */
  append(bytes: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    if (this.#closed) return Promise.reject(new VaultError('VAULT_LOCKED'))
    return new Promise((done, failed) => {
      this.#waiting.push({ bytes, done, failed })
      // After this turn's other callbacks, so that requests which came together are flushed together.
      this.#running ??= new Promise<void>((start) => setImmediate(start)).then(() => this.#run())
    })
  }

  /** Fulfilled when everything appended so far is on disk, or was refused. */
  async drain(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  /** Flushes what waits and closes the file. Appending afterwards is refused. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.drain()
    await closeFile(this.#descriptor)
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#write(batch.map(({ bytes }) => bytes))
        for (const { done } of batch) done()
      } catch (cause) {
        this.#fail([...batch, ...this.#waiting], cause)
        this.#waiting = []
      }
    }
    this.#running = undefined
  }

  async #write(batch: readonly Uint8Array[]): Promise<void> {
    const target = this.#redirect?.(batch, this.#offset)
    if (target !== undefined) {
      const old = this.#descriptor
      this.#descriptor = target.descriptor
      this.#offset = target.offset
      await closeFile(old)
      if (target.holdsBatch) return
    }
    const bytes = batch.length === 1 ? batch[0]! : Buffer.concat(batch)
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await writeFile(this.#descriptor, bytes, at, bytes.length - at, this.#offset)
      at += bytesWritten
      this.#offset += bytesWritten
    }
    await flushFile(this.#descriptor)
  }

  #fail(refused: readonly Waiting[], cause: unknown): void {
    this.#failure = new VaultError(
      'STORAGE_UNAVAILABLE',
      `Could not write to ${this.#name}; nothing is written to it until the vault is opened again. Check that the disk has room.`,
      { cause },
    )
    for (const { failed } of refused) failed(this.#failure)
  }
}
