import { isAbsolute } from 'node:path'
import { passwordChanged } from '../../audit/auditLine.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import { derivedKeyId } from '../../keys/keyId.ts'
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

/** A key without anything secret, as the API shows it. */
export interface KeyView {
  readonly id: string
  readonly family: KeyFamily
  readonly address: string
  readonly source: 'seed' | 'import'
  readonly path: string | null
  /** True for a key that is for test chains only. */
  readonly test: boolean
  /** True for the one that agents use on such chains. */
  readonly in_use: boolean
}

/**
 * The keys themselves, the password and backups: only for whoever speaks on the owner's socket, and never for a session of
 * the approvals page. Whatever hands a secret out, or puts one in, asks for the password again. `OWNER_REQUIRED`,
 * `VAULT_LOCKED`, `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS`, `VALIDATION_ERROR` from every one of them.
 */
export interface CustodyApi {
  list(context: OwnerContext): { keys: readonly KeyView[] }
  /** `{family, index, test?}`: one more account of the recovery words. */
  derive(input: InputOf<typeof deriveRequest>, context: OwnerContext): Promise<KeyView>
  /**
   * `{id}`: the key that agents use from now on, on every chain of its family; a key for test chains on these, any other
   * on the rest. @throws `KEY_UNKNOWN`
   */
  use(input: InputOf<typeof keyRequest>, context: OwnerContext): Promise<KeyView>
  /** `{password, family, name, private_key, test?}`. @throws `ALREADY_EXISTS` */
  importKey(input: InputOf<typeof importKeyRequest>, context: OwnerContext): Promise<KeyView>
  /** `{password, mnemonic}`: other recovery words, and with them other accounts. */
  importMnemonic(
    input: InputOf<typeof mnemonicRequest>,
    context: OwnerContext,
  ): Promise<{ keys: readonly KeyView[] }>
  /** `{password, id}`. @throws `KEY_UNKNOWN` */
  exportKey(
    input: InputOf<typeof exportKeyRequest>,
    context: OwnerContext,
  ): Promise<KeyView & { private_key: string }>
  /** `{password}` */
  exportMnemonic(input: InputOf<typeof passwordRequest>, context: OwnerContext): Promise<{ mnemonic: string }>
  /** `{password, new_password}`; works locked, too. Nothing but the key that wraps the others is written. */
  changePassword(input: InputOf<typeof newPasswordRequest>, context: OwnerContext): Promise<{ changed: true }>
  /** `{file}`: one new file on the vault's machine. @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
  backup(input: InputOf<typeof backupRequest>, context: OwnerContext): Promise<{ file: string }>
}

export function createCustodyApi(vault: Vault): CustodyApi {
  const { keys, audit } = vault

  function assertSocket({ caller }: OwnerContext): void {
    if (caller.kind !== 'owner' || caller.via !== 'socket')
      throw new VaultError('OWNER_REQUIRED', "Expected the owner's socket: tollgate vault, on this machine.")
  }
  function open(context: OwnerContext): void {
    assertSocket(context)
    vault.assertUnlocked()
  }

  /** Does it, and writes down that it was done, or that the password for it was wrong. */
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
    list(context) {
      open(context)
      return list()
    },
    async derive({ family, index, test: isTest = false }, context) {
      open(context)
      return noted(context, `account ${derivedKeyId(family, index, isTest)} added`, async () =>
        view(await keys.derive(family, index, isTest)),
      )
    },
    async use({ id }, context) {
      open(context)
      const { family } = keys.get(id)
      return noted(context, `agents use the key ${id}`, async () => {
        await keys.setDefault(family, id)
        return view(keys.get(id))
      })
    },
    async importKey({ password, family, name, private_key: text, test: isTest = false }, context) {
      open(context)
      const privateKey = readPrivateKeyText(family, text)
      try {
        return await noted(context, `a key of ${family} imported`, async () =>
          view(await vault.importKey(password, family, name, privateKey, isTest)),
        )
      } finally {
        privateKey.fill(0)
      }
    },
    async importMnemonic({ password, mnemonic }, context) {
      open(context)
      return noted(context, 'other recovery words taken in', async () => {
        await vault.importMnemonic(password, mnemonic)
        return list()
      })
    },
    async exportKey({ password, id }, context) {
      open(context)
      const key = keys.get(id)
      return noted(context, `the private key ${id} handed out`, async () => {
        const privateKey = await vault.exportKey(password, id)
        try {
          const publicKey = Buffer.from(key.publicKey, 'hex')
          return { ...view(key), private_key: writePrivateKeyText(key.family, privateKey, publicKey) }
        } finally {
          privateKey.fill(0)
        }
      })
    },
    async exportMnemonic({ password }, context) {
      open(context)
      return noted(context, 'the recovery words handed out', async () => ({
        mnemonic: await vault.exportMnemonic(password),
      }))
    },
    async changePassword({ password, new_password: next }, context) {
      assertSocket(context)
      return noted(context, passwordChanged, async () => {
        await vault.changePassword(password, next)
        return { changed: true as const }
      })
    },
    async backup({ file }, context) {
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
