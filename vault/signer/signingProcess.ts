import type { ChildProcess } from 'node:child_process'
import { performance } from 'node:perf_hooks'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { SignKind } from '../ports/signer.ts'
import type { SealedRecord } from './custodian.ts'
import { type HostKeys, readHostKeys } from './hostKeys.ts'
import {
  createFrameReader,
  describeFrame,
  fromChild,
  type Proof,
  proofFields,
  requestFrame,
  signFrame,
  toChild,
  u32,
  unpackFields,
} from './protocol.ts'
import { spawnChild } from './spawnChild.ts'

/** A process that has not answered for so long never will. */
const SILENCE_MS = 10_000
/** What it gets to zero its keys in once its input has ended. */
const FAREWELL_MS = 500

interface Pending {
  readonly done: (bytes: Buffer) => void
  readonly failed: (error: Error) => void
  readonly askedAtMs: number
}

/**
 * One child process that holds the keys, from its start to its end. It is never started again: make another.
 *
 * Every request throws `SIGNER_LOST` when the process is gone, and `VAULT_LOCKED` once {@link end} was called. Those that take
 * a {@link Proof} throw `BAD_PASSWORD` when it opens nothing; those that take a record throw `VAULT_CORRUPT` when it does not
 * open. Buffers that come back are the caller's, who zeroes them.
 */
export class SigningProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #ended: Promise<void>
  #nextRequest = 1
  #isOver = false
  #endedAs: () => VaultError = () => new VaultError('SIGNER_LOST')
  #watch: NodeJS.Timeout | undefined
  #lost: (() => void) | undefined

  constructor() {
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
  }

  /** Makes the master key of a new vault, in there. @returns it, wrapped under the password key, and the host's keys */
  async create(proof: Omit<Proof, 'wrappedKey'>): Promise<{ wrappedKey: Buffer; keys: HostKeys }> {
    const { vaultId, associated, passwordKey } = proof
    const packed = await this.#request(toChild.create, [vaultId, associated, passwordKey])
    const [wrappedKey, keys] = unpackFields(packed)
    return { wrappedKey: wrappedKey!, keys: readHostKeys(keys!) }
  }

  /** Has it unwrap the master key and keep it. @returns the host's keys */
  async open(proof: Proof): Promise<HostKeys> {
    return readHostKeys(await this.#request(toChild.open, proofFields(proof)))
  }

  /** Whether this password key is the vault's, by `BAD_PASSWORD` when it is not. */
  async check(proof: Proof): Promise<void> {
    await this.#request(toChild.check, proofFields(proof))
  }

  /** The master key wrapped under another password key. */
  wrap(proof: Proof, passwordKey: Uint8Array, associated: Uint8Array): Promise<Buffer> {
    return this.#request(toChild.wrap, [...proofFields(proof), passwordKey, associated])
  }

  /** The key of one backup, by its salt. */
  backupKey(salt: Uint8Array): Promise<Buffer> {
    return this.#request(toChild.backupKey, [salt])
  }

  /** Hands it a record of keys to sign with: `seed`, or `import:…`. */
  async load({ id, version, sealed }: SealedRecord): Promise<void> {
    await this.#request(toChild.load, [id, u32(version), sealed])
  }

  /** Hands it a raw key, which signs from now on. @returns the record to keep. @throws `VALIDATION_ERROR` */
  importKey(
    proof: Proof,
    { id, version }: Omit<SealedRecord, 'sealed'>,
    family: KeyFamily,
    privateKey: Uint8Array,
  ): Promise<Buffer> {
    return this.#request(toChild.importKey, [...proofFields(proof), id, u32(version), family, privateKey])
  }

  /**
   * Hands it recovery words. Nothing signs with them before their record is loaded.
   * @param kept the record of the seed as it is, and the name under which it stays
   * @returns the record to keep, and the one that keeps the former seed. @throws `VALIDATION_ERROR`
   */
  async importSeed(
    proof: Proof,
    words: Uint8Array,
    version: number,
    kept?: { readonly record: SealedRecord; readonly as: Omit<SealedRecord, 'sealed'> },
  ): Promise<{ sealed: Buffer; kept: Buffer | undefined }> {
    const old = kept && [u32(kept.record.version), kept.record.sealed, kept.as.id, u32(kept.as.version)]
    const fields = [...proofFields(proof), words, u32(version), ...(old ?? [])]
    const [sealed, again] = unpackFields(await this.#request(toChild.importSeed, fields))
    return { sealed: sealed!, kept: again }
  }

  /** The 32 private bytes of a key. @throws `KEY_UNKNOWN` */
  exportKey(proof: Proof, keyId: string): Promise<Buffer> {
    return this.#request(toChild.exportKey, [...proofFields(proof), keyId])
  }

  /** The words of a seed's record, as UTF-8. */
  exportWords(proof: Proof, { version, sealed }: Omit<SealedRecord, 'id'>): Promise<Buffer> {
    return this.#request(toChild.exportWords, [...proofFields(proof), u32(version), sealed])
  }

  /** Calls back once when the process ends and nobody ended it. */
  onLost(listener: () => void): void {
    if (this.#isOver) return queueMicrotask(listener)
    this.#lost = listener
  }

  /** False from the moment at which it is known to be gone. */
  get isAlive(): boolean {
    return !this.#isOver
  }

  /** For tests and diagnosis. */
  get pid(): number | undefined {
    return this.#child.pid
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
    this.#lost = undefined
    this.#refuseAll()
    this.#isOver = true
    this.#child.stdin!.end()
    const late = setTimeout(() => this.#kill(), FAREWELL_MS)
    await this.#ended
    clearTimeout(late)
  }

  #request(type: number, fields: readonly (string | Uint8Array)[]): Promise<Buffer> {
    return this.#ask((request) => requestFrame(type, request, fields))
  }

  #ask(write: (request: number) => Buffer): Promise<Buffer> {
    if (this.#isOver) return Promise.reject(this.#endedAs())
    const request = this.#nextRequest++
    return new Promise((done, failed) => {
      this.#pending.set(request, { done, failed, askedAtMs: performance.now() })
      this.#watch ??= setTimeout(() => this.#checkSilence(), SILENCE_MS).unref()
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
    pending.failed(refusalOf(status, body.toString('utf8', 5)))
  }

  #checkSilence(): void {
    this.#watch = undefined
    const [oldest] = this.#pending.values()
    if (oldest === undefined) return
    const leftMs = SILENCE_MS - (performance.now() - oldest.askedAtMs)
    if (leftMs <= 0) return this.#kill()
    this.#watch = setTimeout(() => this.#checkSilence(), Math.ceil(leftMs)).unref()
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
    this.#lost?.()
    this.#lost = undefined
  }

  #refuseAll(): void {
    for (const { failed } of this.#pending.values()) failed(this.#endedAs())
    this.#pending.clear()
  }
}

function refusalOf(status: number, words: string): VaultError {
  if (status === fromChild.badPassword) return new VaultError('BAD_PASSWORD')
  if (status === fromChild.refused) return new VaultError('VALIDATION_ERROR', words)
  if (status === fromChild.corrupt) {
    return new VaultError('VAULT_CORRUPT', 'A record of keys does not open. Restore the newest backup.')
  }
  if (status === fromChild.keyUnknown) return new VaultError('KEY_UNKNOWN')
  if (status === fromChild.wrongKind) {
    return new VaultError(
      'INVALID_TX',
      'Expected bytes of the kind named, for a key of its family: a whole unsigned transaction (types 0 to 2) ' +
        'that it signs, a message that is none, or the 66 bytes of typed data. Nothing was signed.',
    )
  }
  return new VaultError('SIGNER_LOST', 'The signing process could not do this. Nothing was signed.')
}
