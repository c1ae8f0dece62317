import { seal, sealRecord } from '../../../vault/disk/aead.ts'
import type { SignKind } from '../../../vault/ports/signer.ts'
import type { SealedRecord } from '../../../vault/signer/custodian.ts'
import type { Proof } from '../../../vault/signer/protocol.ts'
import { OwnedSigner, SigningProcess } from '../../../vault/signer/signingProcess.ts'

export const seed = Buffer.alloc(64, 11)

export const masterKey = Buffer.alloc(32, 3)

export const passwordKey = Buffer.alloc(32, 4)

export const vaultId = 'vlt_1'

export const associated = Buffer.from('a header')

export const proof: Proof = {
  vaultId,
  wrappedKey: seal(passwordKey, masterKey, associated),
  associated,
  passwordKey,
}

/** The seed in its record: after entropy that the tests do not need. */
export const seedRecord: SealedRecord = {
  id: 'seed',
  version: 1,
  sealed: sealRecord(
    masterKey,
    { vaultId, scope: 'key/seed', version: 1 },
    Buffer.concat([Uint8Array.of(16), Buffer.alloc(16, 9), seed]),
  ),
}

export type Teardown = { teardown(end: () => Promise<void>): void }

/** A process that has the master key, the seed and an imported key. */
export async function startProcess(t: Teardown): Promise<SigningProcess> {
  const process = new SigningProcess()
  t.teardown(() => process.end())
  await process.open(proof)
  await process.load(seedRecord)
  await process.importKey(proof, { id: 'import:hot', version: 1 }, 'evm', Buffer.alloc(32, 7))
  return process
}

export async function startSigner(t: Teardown) {
  const lost: string[] = []
  const signer = new OwnedSigner({ beforeUse: () => {}, lost: () => lost.push('lost') })
  t.teardown(() => signer.stop())
  signer.start(await startProcess(t))
  let requests = 0
  const sign = async (
    kind: SignKind,
    bytes: Uint8Array,
    keyId = kind.startsWith('evm') ? 'evm:0' : 'solana:0',
  ) => (await signer.sign({ requestId: `r${++requests}`, keyId, kind, bytes })).bytes
  return { signer, sign, lost }
}
