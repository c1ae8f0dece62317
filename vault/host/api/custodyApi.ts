import { isAbsolute } from 'node:path'
import { passwordChanged } from '../../audit/auditEntry.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import { derivedKeyId } from '../../keys/derivation.ts'
import { readPrivateKeyText, writePrivateKeyText } from '../../keys/privateKeyText.ts'
import type { KeyFamily, KeyInfo } from '../../ports/keyring.ts'
import type { Vault } from '../../ports/vault.ts'
import type {
  backupRequest,
  deriveRequest,
  exportKeyRequest,
  importKeyRequest,
  keyRequest,
  mnemonicRequest,
  newPasswordRequest,
  passwordRequest,
} from '../../requests/ownerRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import type { OwnerContext } from '../caller.ts'

/** A key without its secret, as the API returns it. */
export interface KeyView {
  readonly id: string
  readonly family: KeyFamily
  readonly address: string
  readonly source: 'seed' | 'import'
  readonly path: string | null
  /** True for a key that only test chains use. */
  readonly test: boolean
  /** True for the key that agents use on the chains of its family. */
  readonly in_use: boolean
}

/**
 * Operations on keys, the password and backups. Only a caller on the owner's socket may use them, never a page session. Each
 * operation that exports or imports a secret requires the password again. Every method may throw `OWNER_REQUIRED`,
 * `VAULT_LOCKED`, `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS` and `VALIDATION_ERROR`.
 */
export function createCustodyApi(vault: Vault) {
  const { keys, audit } = vault

  function assertSocket({ caller }: OwnerContext): void {
    if (caller.kind !== 'owner' || caller.via !== 'socket')
      throw new VaultError('OWNER_REQUIRED', "Expected the owner's socket: tollgate vault, on this machine.")
  }
  function open(context: OwnerContext): void {
    assertSocket(context)
    vault.assertUnlocked()
  }

  /** Runs the work. Logs that it succeeded, or that the password was wrong. */
  async function noted<T>({ requestId }: OwnerContext, note: string, work: () => Promise<T>): Promise<T> {
    const event = { agent: 'owner', action: 'CONFIG', requestId, note } as const
    try {
      const done = await work()
      await audit.append({ ...event, status: 'APPROVED' })
      return done
    } catch (error) {
      if (isVaultError(error) && error.code === 'BAD_PASSWORD')
        await audit.append({ ...event, status: 'DENIED', code: error.code })
      throw error
    }
  }

  const view = (key: KeyInfo): KeyView => ({
    id: key.keyId,
    family: key.family,
    address: key.address,
    source: key.source,
    path: key.path ?? null,
    test: key.isTest,
    in_use: keys.default(key.family, key.isTest).keyId === key.keyId,
  })
  const list = () => ({ keys: keys.list().map(view) })

  return {
    list(context: OwnerContext) {
      open(context)
      return list()
    },
    /** Derives one more account from the recovery words. */
    async derive(
      { family, index, test: isTest = false }: InputOf<typeof deriveRequest>,
      context: OwnerContext,
    ) {
      open(context)
      return noted(context, `account ${derivedKeyId(family, index, isTest)} added`, async () =>
        view(await keys.derive(family, index, isTest)),
      )
    },
    /**
     * Selects the key that agents use from now on, on every chain of its family. A test key is used on test chains, any
     * other key on all other chains.
     * @throws `KEY_UNKNOWN`
     */
    async use({ id }: InputOf<typeof keyRequest>, context: OwnerContext) {
      open(context)
      const { family } = keys.get(id)
      return noted(context, `agents now use the key ${id}`, async () => {
        await keys.setDefault(family, id)
        return view(keys.get(id))
      })
    },
    /** @throws `ALREADY_EXISTS` */
    async importKey(
      { password, family, name, private_key: text, test: isTest = false }: InputOf<typeof importKeyRequest>,
      context: OwnerContext,
    ) {
      open(context)
      const privateKey = readPrivateKeyText(family, text)
      try {
        return await noted(context, `${family} key imported`, async () =>
          view(await vault.importKey(password, family, name, privateKey, isTest)),
        )
      } finally {
        privateKey.fill(0)
      }
    },
    /** Replaces the recovery words and the accounts derived from them. */
    async importMnemonic({ password, mnemonic }: InputOf<typeof mnemonicRequest>, context: OwnerContext) {
      open(context)
      return noted(context, 'recovery words replaced', async () => {
        await vault.importMnemonic(password, mnemonic)
        return list()
      })
    },
    /** @throws `KEY_UNKNOWN` */
    async exportKey({ password, id }: InputOf<typeof exportKeyRequest>, context: OwnerContext) {
      open(context)
      const key = keys.get(id)
      return noted(context, `the private key ${id} exported`, async () => {
        const privateKey = await vault.exportKey(password, id)
        try {
          const publicKey = Buffer.from(key.publicKey, 'hex')
          return { ...view(key), private_key: writePrivateKeyText(key.family, privateKey, publicKey) }
        } finally {
          privateKey.fill(0)
        }
      })
    },
    /** Exports the recovery words. */
    async exportMnemonic({ password }: InputOf<typeof passwordRequest>, context: OwnerContext) {
      open(context)
      return noted(context, 'the recovery words exported', async () => ({
        mnemonic: await vault.exportMnemonic(password),
      }))
    },
    /** Changes the password, also while the vault is locked. Only the wrapped master key is rewritten. */
    async changePassword(
      { password, new_password: next }: InputOf<typeof newPasswordRequest>,
      context: OwnerContext,
    ) {
      assertSocket(context)
      return noted(context, passwordChanged, async () => {
        await vault.changePassword(password, next)
        return { changed: true as const }
      })
    },
    /** Writes a backup into a new file on the vault's machine. @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
    async backup({ file }: InputOf<typeof backupRequest>, context: OwnerContext) {
      open(context)
      if (!isAbsolute(file) || file.includes('\0'))
        throw new VaultError('VALIDATION_ERROR', 'file: Expected an absolute path.')
      return noted(context, 'a backup written', async () => {
        await vault.backup(file)
        return { file }
      })
    },
  }
}
