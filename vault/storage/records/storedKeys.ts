import { VaultError } from '../../errors/error.ts'
import { importedKeyId, parseDerivedKeyId } from '../../keys/derivation.ts'
import { type KeyringState, VaultKeyring } from '../../keys/vaultKeyring.ts'
import type { KeyFamily, KeyInfo } from '../../ports/keyring.ts'
import type { SealedRecord } from '../../signer/custodian.ts'
import type { Proof } from '../../signer/protocol.ts'
import type { OwnedSigner } from '../../signer/signingProcess.ts'
import type { RecordStore } from './recordStore.ts'

const seedId = 'seed'
const keyringId = 'keyring'

/** The stored seed and imported keys, in sealed form. Only the signing process opens them. */
export class StoredKeys {
  readonly #store: RecordStore
  readonly #signer: OwnedSigner
  /** The public data of the keys. */
  readonly keyring: VaultKeyring

  constructor(store: RecordStore, signer: OwnedSigner, beforeUse: () => void) {
    this.#store = store
    this.#signer = signer
    this.keyring = new VaultKeyring({
      beforeUse,
      publicKey: (keyId) => signer.publicKey(keyId),
      save: async (state) =>
        void (await store.putJson('key', keyringId, { ...state, seedVersion: this.#seedVersion })),
    })
  }

  /** The records of all keys that can sign. @throws `VAULT_CORRUPT` */
  get sealed(): readonly SealedRecord[] {
    const imported = this.#store.list('key').filter(({ id }) => id.startsWith('import:'))
    return [this.#seedRecord(), ...imported.map(({ id }) => this.#store.sealed(id)!)]
  }

  /** Loads the public data of the keys. The signing process must already have the keys. */
  async open(): Promise<void> {
    const saved = this.#store.getJson<KeyringState & { readonly seedVersion: number }>('key', keyringId)
    this.keyring.load(saved)
    // The process ended just after a new seed was imported, so the seed's addresses are not derived yet.
    if (saved !== undefined && saved.seedVersion !== this.#seedVersion) await this.#deriveAgain()
    for (const isTest of [false, true]) {
      await this.keyring.derive('evm', 0, isTest)
      await this.keyring.derive('solana', 0, isTest)
    }
  }

  async exportMnemonic(proof: Proof): Promise<string> {
    const words = await this.#signer.process.exportWords(proof, this.#seedRecord())
    const mnemonic = words.toString('utf8')
    words.fill(0)
    return mnemonic
  }

  /** Makes another seed the one that signs from now on. The old seed stays stored. */
  async importMnemonic(proof: Proof, mnemonic: string): Promise<void> {
    const { process } = this.#signer
    const old = this.#seedRecord()
    const id = `${seedId}-${old.version}`
    const as = { id, version: this.#store.nextVersion(id) }
    const next = { id: seedId, version: old.version + 1 }
    const words = Buffer.from(mnemonic, 'utf8')
    try {
      const made = await process.importSeed(proof, words, next.version, { record: old, as })
      const seed = { ...next, sealed: made.sealed }
      await this.#store.putSealed({ ...as, sealed: made.kept! }, seed)
      await process.load(seed)
    } finally {
      words.fill(0)
    }
    await this.#deriveAgain()
  }

  /** @throws `ALREADY_EXISTS` */
  async importKey(
    proof: Proof,
    family: KeyFamily,
    name: string,
    privateKey: Uint8Array,
    isTest: boolean,
  ): Promise<KeyInfo> {
    const keyId = importedKeyId(name)
    if (this.keyring.list().some((known) => known.keyId === keyId))
      throw new VaultError('ALREADY_EXISTS', `The key ${keyId} already exists.`)
    const record = { id: keyId, version: this.#store.nextVersion(keyId) }
    const sealed = await this.#signer.process.importKey(proof, record, family, privateKey)
    await this.#store.putSealed({ ...record, sealed })
    return await this.keyring.add({ keyId, family, source: 'import', path: undefined, isTest })
  }

  /** @throws `KEY_UNKNOWN` */
  exportKey(proof: Proof, keyId: string): Promise<Buffer> {
    return this.#signer.process.exportKey(proof, this.keyring.get(keyId).keyId)
  }

  get #seedVersion(): number {
    return this.#store.info('key', seedId)?.version ?? 0
  }

  #seedRecord(): SealedRecord {
    const record = this.#store.sealed(seedId)
    if (record === undefined)
      throw new VaultError('VAULT_CORRUPT', 'The vault holds no seed. Restore the newest backup.')
    return record
  }

  /** Derives the same accounts from another seed. Imported keys stay unchanged. */
  async #deriveAgain(): Promise<void> {
    const known = this.keyring.list()
    this.keyring.load({ keys: known.filter((key) => key.source === 'import'), ...this.keyring.defaults })
    for (const { keyId } of known) {
      const derived = parseDerivedKeyId(keyId)
      if (derived !== undefined) await this.keyring.derive(derived.family, derived.index, derived.isTest)
    }
  }
}
