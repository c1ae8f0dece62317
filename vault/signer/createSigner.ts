import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { Signature, Signer, SignRequest } from '../ports/signer.ts'
import { signKinds } from './protocol.ts'
import { type KeyMaterial, SigningProcess } from './signingProcess.ts'

const rememberedIds = 50_000
const longestId = 128
const longestBytes = 512 * 1024

/** The signer with the handles that its vault alone has. */
export interface OwnedSigner extends Signer {
  /** Starts signing. The material is asked for at each start of a child, and zeroed by it. */
  start(material: () => KeyMaterial): void
  /** Ends the child and waits for its end; `start` begins anew. Used request ids stay used. */
  stop(): Promise<void>
  /** @throws `KEY_UNKNOWN`, `SIGNER_LOST`, `VAULT_LOCKED` */
  publicKey(keyId: string): Promise<Buffer>
  /** Hands one more key to a child that runs; a later child gets it from the material. Zeroes the bytes. */
  addImported(keyId: string, family: KeyFamily, privateKey: Buffer): void
  /** Of the child that runs, for tests and diagnosis. */
  readonly pid: number | undefined
}

/** A {@link Signer} whose child is started when first needed, and again after it died. @param beforeUse throws when locked. */
export function createSigner(beforeUse: () => void): OwnedSigner {
  const used = new Set<string>()
  let material: (() => KeyMaterial) | undefined
  let current: SigningProcess | undefined

  const running = (): SigningProcess => {
    if (material === undefined) throw new VaultError('VAULT_LOCKED')
    if (current === undefined || !current.isAlive) current = new SigningProcess(material())
    return current
  }

  const take = (requestId: string): void => {
    if (typeof requestId !== 'string' || requestId === '' || requestId.length > longestId) {
      throw new VaultError('VALIDATION_ERROR', `Expected a request id of 1 to ${longestId} characters.`)
    }
    if (used.has(requestId)) throw new VaultError('REQUEST_ID_USED')
    used.add(requestId)
    if (used.size > rememberedIds) used.delete(used.values().next().value!)
  }

  return {
    async sign({ requestId, keyId, kind, bytes }: SignRequest): Promise<Signature> {
      beforeUse()
      assertSignable(keyId, kind, bytes)
      const child = running()
      take(requestId)
      return { bytes: await child.sign(keyId, kind, bytes) }
    },
    start(give) {
      material = give
      running()
    },
    async stop() {
      material = undefined
      const last = current
      current = undefined
      await last?.end()
    },
    async publicKey(keyId) {
      return running().publicKey(keyId)
    },
    addImported(keyId, family, privateKey) {
      running().addImported(keyId, family, privateKey)
    },
    get pid() {
      return current?.isAlive ? current.pid : undefined
    },
  }
}

function assertSignable(keyId: string, kind: SignRequest['kind'], bytes: Uint8Array): void {
  if (!signKinds.includes(kind)) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected a kind of ${signKinds.join(', ')}, got ${String(kind)}.`,
    )
  }
  if (Buffer.byteLength(keyId) > longestId) throw new VaultError('KEY_UNKNOWN')
  if (bytes.length > longestBytes) {
    throw new VaultError('INVALID_TX', `Expected at most ${longestBytes} bytes to sign, got ${bytes.length}.`)
  }
}
