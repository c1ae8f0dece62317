import { close, closeSync, fdatasync, ftruncateSync, write } from 'node:fs'
import { promisify } from 'node:util'
import { VaultError } from '../../errors/error.ts'

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

export interface WriterHooks {
  /** False once another process writes these files: nothing is written, cut or promised any more. */
  readonly isOurs?: (() => boolean) | undefined
  /**
   * Asked before each batch, synchronously: undefined to go on, or another file to go on in. The old descriptor is
   * closed.
   */
  readonly redirect?: (batch: readonly Uint8Array[], offset: number) => WriteTarget | undefined
  /** The first `count` of what waits is on disk; called before anybody hears of it. */
  readonly written?: (count: number) => void
  /**
   * Nothing of what waits is on disk, or will be; called before anybody hears of it, so that state in memory can be made
   * again what the file says. May give the file to go on in; else the writer cuts its own back.
   * @param bytes up to where the file is what was written
   */
  readonly failed?: (bytes: number) => WriteTarget | undefined
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
 * After a failed write or flush everything that waits is refused. The file is cut back to the last byte that a flush
 * covered before anything is appended to it again, so nothing is taken from pages that the kernel may have dropped: once
 * there is room, writing goes on.
 */
export class GroupWriter {
  readonly #name: string
  readonly #hooks: WriterHooks
  #descriptor: number
  #offset: number
  /** Up to here the file is flushed. */
  #durable: number
  #mustCut = false
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined
  /** Set when the state could not be read back: nothing is appended any more. */
  #failure: VaultError | undefined
  #closed = false

  /** @param name what errors call the file */
  constructor(name: string, target: WriteTarget, hooks: WriterHooks = {}) {
    this.#name = name
    this.#descriptor = target.descriptor
    this.#offset = target.offset
    this.#durable = target.offset
    this.#hooks = hooks
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
      if (!this.#isOurs()) {
        this.#refuse(batch)
        break
      }
      try {
        await this.#write(batch.map(({ bytes }) => bytes))
        // What another process has not read when it took over is not on disk for it.
        if (!this.#isOurs()) {
          this.#refuse(batch)
          break
        }
        this.#durable = this.#offset
        this.#hooks.written?.(batch.length)
        for (const { done } of batch) done()
      } catch (cause) {
        if (!this.#isOurs()) {
          this.#refuse(batch)
          break
        }
        const refused = [...batch, ...this.#waiting]
        this.#waiting = []
        this.#fail(refused, cause)
      }
    }
    this.#running = undefined
  }

  async #write(batch: readonly Uint8Array[]): Promise<void> {
    if (this.#mustCut) this.#cut()
    const target = this.#hooks.redirect?.(batch, this.#offset)
    if (target !== undefined) {
      const old = this.#descriptor
      this.#goOnIn(target)
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

  #isOurs(): boolean {
    return this.#hooks.isOurs?.() ?? true
  }

  /** The file belongs to another process now: it is left as it is. */
  #refuse(batch: readonly Waiting[]): void {
    const failure = new VaultError(
      'VAULT_IN_USE',
      'Another process has opened this vault, because this one stood still for too long. What was asked for was not done.',
    )
    this.#failure = failure
    for (const { failed } of [...batch, ...this.#waiting]) failed(failure)
    this.#waiting = []
  }

  #fail(refused: readonly Waiting[], cause: unknown): void {
    let error = new VaultError(
      'STORAGE_UNAVAILABLE',
      `Could not write to ${this.#name}; what was asked for was not done. Check that the disk has room, then ask again.`,
      { cause },
    )
    this.#mustCut = true
    try {
      const target = this.#hooks.failed?.(this.#durable)
      if (target !== undefined) {
        closeSync(this.#descriptor)
        this.#goOnIn(target)
      }
    } catch (reading) {
      error = this.#failure = new VaultError(
        'STORAGE_UNAVAILABLE',
        `Could not write to ${this.#name}, nor read it back; nothing is written to it until the vault is opened again.`,
        { cause: reading },
      )
    }
    try {
      if (this.#mustCut) this.#cut()
    } catch {
      // Tried again before the next write.
    }
    for (const { failed } of refused) failed(error)
  }

  #goOnIn({ descriptor, offset }: WriteTarget): void {
    this.#descriptor = descriptor
    this.#offset = offset
    this.#durable = offset
    this.#mustCut = false
  }

  #cut(): void {
    ftruncateSync(this.#descriptor, this.#durable)
    this.#offset = this.#durable
    this.#mustCut = false
  }
}
