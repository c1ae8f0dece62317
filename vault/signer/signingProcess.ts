import type { ChildProcess } from 'node:child_process'
import { performance } from 'node:perf_hooks'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { SignKind } from '../ports/signer.ts'
import { createFrameReader, describeFrame, fromChild, importFrame, seedFrame, signFrame } from './protocol.ts'
import { spawnChild } from './spawnChild.ts'

/** A process that has not answered for so long never will. */
const silenceMs = 10_000
/** What it gets to zero its keys in once its input has ended. */
const farewellMs = 500

/** Private keys on their way to the child. Every buffer is zeroed once it is through. */
export interface KeyMaterial {
  readonly seed: Buffer
  readonly imported: readonly {
    readonly keyId: string
    readonly family: KeyFamily
    readonly privateKey: Buffer
  }[]
}

interface Pending {
  readonly done: (bytes: Buffer) => void
  readonly failed: (error: Error) => void
  readonly askedAtMs: number
}

/** One child process that holds the keys, from its start to its end. It is never started again: make another. */
export class SigningProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #ended: Promise<void>
  #nextRequest = 1
  #isOver = false
  #endedAs: () => VaultError = () => new VaultError('SIGNER_LOST')
  #watch: NodeJS.Timeout | undefined

  constructor(material: KeyMaterial) {
    const child = spawnChild()
    this.#child = child
    this.#ended = new Promise((ended) => {
      child.once('close', () => this.#over(ended))
      child.once('error', () => this.#over(ended))
    })
    child.stdin!.on('error', () => this.#kill())
    child.stdout!.on(
      'data',
      createFrameReader((body) => this.#answered(body)),
    )
    this.#send(seedFrame(material.seed))
    material.seed.fill(0)
    for (const { keyId, family, privateKey } of material.imported) this.addImported(keyId, family, privateKey)
  }

  /** False from the moment at which it is known to be gone. */
  get isAlive(): boolean {
    return !this.#isOver
  }

  /** For tests and diagnosis. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Zeroes the bytes. */
  addImported(keyId: string, family: KeyFamily, privateKey: Buffer): void {
    this.#send(importFrame(keyId, family, privateKey))
    privateKey.fill(0)
  }

  /** The public half of a key. @throws `KEY_UNKNOWN`, `SIGNER_LOST` */
  publicKey(keyId: string): Promise<Buffer> {
    return this.#ask((request) => describeFrame(request, keyId))
  }

  /** @throws `KEY_UNKNOWN`, `INVALID_TX`, `SIGNER_LOST`; sent to the child once, whatever happens. */
  sign(keyId: string, kind: SignKind, bytes: Uint8Array): Promise<Buffer> {
    return this.#ask((request) => signFrame(request, kind, keyId, bytes))
  }

  /** Ends it; fulfilled when the process is gone. Requests under way fail with `VAULT_LOCKED`. */
  async end(): Promise<void> {
    this.#endedAs = () => new VaultError('VAULT_LOCKED', 'The vault was locked before this was signed.')
    this.#refuseAll()
    this.#isOver = true
    this.#child.stdin!.end()
    const late = setTimeout(() => this.#kill(), farewellMs)
    await this.#ended
    clearTimeout(late)
  }

  #ask(write: (request: number) => Buffer): Promise<Buffer> {
    if (this.#isOver) return Promise.reject(this.#endedAs())
    const request = this.#nextRequest++
    return new Promise((done, failed) => {
      this.#pending.set(request, { done, failed, askedAtMs: performance.now() })
      this.#watch ??= setTimeout(() => this.#checkSilence(), silenceMs).unref()
      this.#send(write(request))
    })
  }

  /** Zeroes the frame once the pipe has taken it. */
  #send(frame: Buffer): void {
    this.#child.stdin!.write(frame, () => frame.fill(0))
  }

  #answered(body: Buffer): void {
    const request = body.readUInt32BE()
    const pending = this.#pending.get(request)
    if (pending === undefined) return
    this.#pending.delete(request)
    const status = body.readUInt8(4)
    if (status === fromChild.done) return pending.done(Buffer.from(body.subarray(5)))
    pending.failed(refusalOf(status))
  }

  #checkSilence(): void {
    this.#watch = undefined
    const [oldest] = this.#pending.values()
    if (oldest === undefined) return
    if (performance.now() - oldest.askedAtMs >= silenceMs) return this.#kill()
    this.#watch = setTimeout(() => this.#checkSilence(), silenceMs).unref()
  }

  #kill(): void {
    this.#isOver = true
    this.#child.kill('SIGKILL')
  }

  #over(ended: () => void): void {
    this.#isOver = true
    clearTimeout(this.#watch)
    this.#refuseAll()
    ended()
  }

  #refuseAll(): void {
    for (const { failed } of this.#pending.values()) failed(this.#endedAs())
    this.#pending.clear()
  }
}

function refusalOf(status: number): VaultError {
  if (status === fromChild.keyUnknown) return new VaultError('KEY_UNKNOWN')
  if (status === fromChild.wrongKind) {
    return new VaultError(
      'INVALID_TX',
      'Expected bytes of the kind named, for a key of its family: a whole unsigned transaction (types 0 to 2) ' +
        'that it signs, a message that is none, or the 66 bytes of typed data. Nothing was signed.',
    )
  }
  return new VaultError('SIGNER_LOST', 'The signing process could not sign this. Nothing was signed.')
}
