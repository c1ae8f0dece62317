import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { Signature, Signer, SignKind, SignRequest } from '../ports/signer.ts'
import type { SealedRecord } from './custodian.ts'
import {
  createFrameReader,
  describeFrame,
  fromChild,
  type HostKeys,
  type Proof,
  proofFields,
  readHostKeys,
  requestFrame,
  signFrame,
  signKinds,
  toChild,
  u32,
  unpackFields,
} from './protocol.ts'

const REMEMBERED_IDS = 50_000
const LONGEST_ID = 128
const LONGEST_BYTES = 512 * 1024

/** How long the process may be silent before it counts as hung, in ms. */
const SILENCE_MS = 10_000
/** Maximum time for the process to zero its keys and exit after its input has ended, in ms. */
const FAREWELL_MS = 500

interface Pending {
  readonly done: (bytes: Buffer) => void
  readonly failed: (error: Error) => void
  readonly sentAtMs: number
}

/**
 * One child process with the keys, from start to exit. It is never restarted.
 *
 * Every request throws `SIGNER_LOST` if the process has exited, and `VAULT_LOCKED` after {@link end} was called. A request with
 * a {@link Proof} throws `BAD_PASSWORD` if the proof does not open the master key. A request with a record throws
 * `VAULT_CORRUPT` if the record cannot be opened. The caller owns and zeroes returned buffers.
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

  /** Creates the master key of a new vault. @returns the master key, wrapped with the password key, and the host's keys */
  async create(proof: Omit<Proof, 'wrappedKey'>): Promise<{ wrappedKey: Buffer; keys: HostKeys }> {
    const { vaultId, associated, passwordKey } = proof
    const packed = await this.#request(toChild.create, [vaultId, associated, passwordKey])
    const [wrappedKey, keys] = unpackFields(packed)
    return { wrappedKey: wrappedKey!, keys: readHostKeys(keys!) }
  }

  /** Unwraps the master key in the process, which keeps it. @returns the host's keys */
  async open(proof: Proof): Promise<HostKeys> {
    return readHostKeys(await this.#request(toChild.open, proofFields(proof)))
  }

  /** Checks whether this password key is the vault's. @throws `BAD_PASSWORD` if it is not */
  async check(proof: Proof): Promise<void> {
    await this.#request(toChild.check, proofFields(proof))
  }

  /** The master key wrapped with another password key. */
  wrap(proof: Proof, passwordKey: Uint8Array, associated: Uint8Array): Promise<Buffer> {
    return this.#request(toChild.wrap, [...proofFields(proof), passwordKey, associated])
  }

  /** Derives the key of the backup with this salt. */
  backupKey(salt: Uint8Array): Promise<Buffer> {
    return this.#request(toChild.backupKey, [salt])
  }

  /** Sends a key record (`seed` or `import:…`) to the process, which then signs with its keys. */
  async load({ id, version, sealed }: SealedRecord): Promise<void> {
    await this.#request(toChild.load, [id, u32(version), sealed])
  }

  /**
   * Sends a raw key to the process, which can sign with it from now on. @returns the record to store @throws `VALIDATION_ERROR`
   */
  importKey(
    proof: Proof,
    { id, version }: Omit<SealedRecord, 'sealed'>,
    family: KeyFamily,
    privateKey: Uint8Array,
  ): Promise<Buffer> {
    return this.#request(toChild.importKey, [...proofFields(proof), id, u32(version), family, privateKey])
  }

  /**
   * Sends recovery words to the process. The process signs with them only after their record is loaded.
   * @param kept the current record of the seed, and the name under which that seed is stored from now on
   * @returns the record to store, and the record of the former seed @throws `VALIDATION_ERROR`
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

  /** Calls the listener once, when the process exits unexpectedly. */
  onLost(listener: () => void): void {
    if (this.#isOver) return queueMicrotask(listener)
    this.#lost = listener
  }

  /** False after the process has exited. */
  get isAlive(): boolean {
    return !this.#isOver
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** The public half of a key. @throws `KEY_UNKNOWN`, `SIGNER_LOST` */
  publicKey(keyId: string): Promise<Buffer> {
    return this.#ask((request) => describeFrame(request, keyId))
  }

  /** Sends the request to the child only once, with any outcome. @throws `KEY_UNKNOWN`, `INVALID_TX`, `SIGNER_LOST` */
  sign(keyId: string, kind: SignKind, bytes: Uint8Array): Promise<Buffer> {
    return this.#ask((request) => signFrame(request, kind, keyId, bytes))
  }

  /** Ends the process. Fulfilled when it has exited. Running requests fail with `VAULT_LOCKED`. */
  async end(): Promise<void> {
    this.#endedAs = () =>
      new VaultError('VAULT_LOCKED', 'The vault was locked before the request was signed.')
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
      this.#pending.set(request, { done, failed, sentAtMs: performance.now() })
      this.#watch ??= setTimeout(() => this.#checkSilence(), SILENCE_MS).unref()
      this.#send(write(request))
    })
  }

  /** Zeroes the frame once the pipe has accepted it. */
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
    const leftMs = SILENCE_MS - (performance.now() - oldest.sentAtMs)
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

interface SignerSupport {
  /** Throws when the vault is locked. */
  beforeUse(): void
  /** Called when the process exited unexpectedly. The master key is lost with it, so the vault needs the password again. */
  lost(): void
}

/**
 * A {@link Signer} over several processes. Each has the keys from an unlock until the next lock. Only its vault starts and
 * stops these processes.
 */
export class OwnedSigner implements Signer {
  readonly #support: SignerSupport
  readonly #used = new Set<string>()
  #current: SigningProcess | undefined

  constructor(support: SignerSupport) {
    this.#support = support
  }

  async sign({ requestId, keyId, kind, bytes }: SignRequest): Promise<Signature> {
    this.#support.beforeUse()
    assertSignable(keyId, kind, bytes)
    const child = this.process
    this.#take(requestId)
    return { bytes: await child.sign(keyId, kind, bytes) }
  }

  /** Takes ownership of a process that has the vault's keys. Nothing is signed before this call. */
  start(process: SigningProcess): void {
    this.#current = process
    process.onLost(() => {
      if (this.#current === process) this.#support.lost()
    })
  }

  /** Ends the process and waits for its exit. Used request ids stay used. Later {@link start} takes another process. */
  async stop(): Promise<void> {
    const last = this.#current
    this.#current = undefined
    await last?.end()
  }

  /** The running process. @throws `VAULT_LOCKED` */
  get process(): SigningProcess {
    if (this.#current === undefined) throw new VaultError('VAULT_LOCKED')
    return this.#current
  }

  /** @throws `KEY_UNKNOWN`, `SIGNER_LOST`, `VAULT_LOCKED` */
  async publicKey(keyId: string): Promise<Buffer> {
    return this.process.publicKey(keyId)
  }

  get pid(): number | undefined {
    return this.#current?.isAlive ? this.#current.pid : undefined
  }

  #take(requestId: string): void {
    if (typeof requestId !== 'string' || requestId === '' || requestId.length > LONGEST_ID) {
      throw new VaultError('VALIDATION_ERROR', `Expected a request id of 1 to ${LONGEST_ID} characters.`)
    }
    if (this.#used.has(requestId)) throw new VaultError('REQUEST_ID_USED')
    this.#used.add(requestId)
    if (this.#used.size > REMEMBERED_IDS) this.#used.delete(this.#used.values().next().value!)
  }
}

function assertSignable(keyId: string, kind: SignRequest['kind'], bytes: Uint8Array): void {
  if (!signKinds.includes(kind)) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected a kind of ${signKinds.join(', ')}, got ${String(kind)}.`,
    )
  }
  if (Buffer.byteLength(keyId) > LONGEST_ID) throw new VaultError('KEY_UNKNOWN')
  if (bytes.length > LONGEST_BYTES) {
    throw new VaultError(
      'INVALID_TX',
      `Expected at most ${LONGEST_BYTES} bytes to sign, got ${bytes.length}.`,
    )
  }
}

function refusalOf(status: number, words: string): VaultError {
  if (status === fromChild.badPassword) return new VaultError('BAD_PASSWORD')
  if (status === fromChild.refused) return new VaultError('VALIDATION_ERROR', words)
  if (status === fromChild.corrupt) {
    return new VaultError('VAULT_CORRUPT', 'A key record cannot be decrypted. Restore the newest backup.')
  }
  if (status === fromChild.keyUnknown) return new VaultError('KEY_UNKNOWN')
  if (status === fromChild.wrongKind) {
    return new VaultError(
      'INVALID_TX',
      'Expected bytes of the given kind, for a key of its family: a complete unsigned transaction (types 0 to 2) ' +
        'with the key as its signer, a message that is not a transaction, or the 66 bytes of typed data. Nothing was signed.',
    )
  }
  return new VaultError(
    'SIGNER_LOST',
    'The signing process could not perform this request. Nothing was signed.',
  )
}

/** The program of the child. Its extension is this module's, which is .js when compiled and .ts in a clone. */
const program = fileURLToPath(new URL(`./signer.child${extname(import.meta.url)}`, import.meta.url))
const shell = '/bin/sh'

/**
 * Starts the signing process with as little as it needs. It has an empty environment and no debugger by signal. Node's
 * permission model denies it writing, processes and (from Node 25) the network.
 *
 * Node cannot limit its own process, so a shell disables core dumps and then becomes Node (exec, same pid). Without /bin/sh,
 * core dumps depend on the system's settings. A debugger of the same user can read any process unless the system forbids it
 * (`kernel.yama.ptrace_scope`).
 */
export function spawnChild(): ChildProcess {
  const flags = ['--disable-sigusr1', '--permission'].filter((flag) =>
    process.allowedNodeEnvironmentFlags.has(flag),
  )
  const allowed = flags.includes('--permission') ? ['--allow-fs-read=*', '--allow-addons'] : []
  const args = [...flags, ...allowed, '--no-warnings', program]
  const { SYSTEMROOT } = process.env
  const options = {
    stdio: ['pipe', 'pipe', 'ignore'] as ['pipe', 'pipe', 'ignore'],
    env: SYSTEMROOT === undefined ? {} : { SYSTEMROOT },
    windowsHide: true,
  }
  if (!existsSync(shell)) return spawn(process.execPath, args, options)
  // NODE_OPTIONS is removed, because tools that preload code into every Node (a profiler, a test runner) put it into each child
  // despite an empty environment.
  return spawn(
    shell,
    ['-c', 'ulimit -c 0; unset NODE_OPTIONS; exec "$0" "$@"', process.execPath, ...args],
    options,
  )
}
