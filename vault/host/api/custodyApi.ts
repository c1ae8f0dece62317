import { isAbsolute } from 'node:path'
import { isVaultError, VaultError } from '../../errors/error.ts'
import { readPrivateKeyText, writePrivateKeyText } from '../../keys/privateKeyText.ts'
import type { KeyFamily, KeyInfo } from '../../ports/keyring.ts'
import type { Vault } from '../../ports/vault.ts'
import { readFields } from '../fields.ts'
import type { OwnerContext } from '../requestContext.ts'

/** A key without anything secret, as the API shows it. */
export interface KeyView {
  readonly id: string
  readonly family: KeyFamily
  readonly address: string
  readonly source: 'seed' | 'import'
  readonly path: string | null
  /** True for the one that agents use. */
  readonly in_use: boolean
}

/**
 * The keys themselves, the password and backups: only for whoever speaks on the owner's socket, and never for a session of
 * the approvals page. Whatever hands a secret out, or puts one in, asks for the password again. `OWNER_REQUIRED`,
 * `VAULT_LOCKED`, `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS`, `VALIDATION_ERROR` from every one of them.
 */
export interface CustodyApi {
  list(context: OwnerContext): { keys: readonly KeyView[] }
  /** `{family, index}`: one more account of the recovery words. */
  derive(input: unknown, context: OwnerContext): Promise<KeyView>
  /** `{id}`: the key that agents use from now on, on every chain of its family. @throws `KEY_UNKNOWN` */
  use(input: unknown, context: OwnerContext): Promise<KeyView>
  /** `{password, family, name, private_key}`. @throws `ALREADY_EXISTS` */
  importKey(input: unknown, context: OwnerContext): Promise<KeyView>
  /** `{password, mnemonic}`: other recovery words, and with them other accounts. */
  importMnemonic(input: unknown, context: OwnerContext): Promise<{ keys: readonly KeyView[] }>
  /** `{password, id}`. @throws `KEY_UNKNOWN` */
  exportKey(input: unknown, context: OwnerContext): Promise<KeyView & { private_key: string }>
  /** `{password}` */
  exportMnemonic(input: unknown, context: OwnerContext): Promise<{ mnemonic: string }>
  /** `{password, new_password}`; works locked, too. Nothing but the key that wraps the others is written. */
  changePassword(input: unknown, context: OwnerContext): Promise<{ changed: true }>
  /** `{file}`: one new file on the vault's machine. @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
  backup(input: unknown, context: OwnerContext): Promise<{ file: string }>
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
    in_use: keys.default(key.family).keyId === key.keyId,
  })
  const list = () => ({ keys: keys.list().map(view) })

  return {
    list(context) {
      open(context)
      return list()
    },
    async derive(input, context) {
      open(context)
      const fields = readFields(input, ['family', 'index'])
      const family = familyOf(fields.text('family'))
      const index = fields.required('index')
      fields.done()
      if (typeof index !== 'number')
        throw new VaultError('VALIDATION_ERROR', 'index: Expected a whole number from 0.')
      return noted(context, `account ${family}:${index} added`, async () =>
        view(await keys.derive(family, index)),
      )
    },
    async use(input, context) {
      open(context)
      const fields = readFields(input, ['id'])
      const id = fields.text('id', 128)
      fields.done()
      const { family } = keys.get(id)
      return noted(context, `agents use the key ${id}`, async () => {
        await keys.setDefault(family, id)
        return view(keys.get(id))
      })
    },
    async importKey(input, context) {
      open(context)
      const fields = readFields(input, ['password', 'family', 'name', 'private_key'])
      const password = fields.text('password', 1_024)
      const family = familyOf(fields.text('family'))
      const name = fields.text('name', 64)
      const text = fields.text('private_key', 1_024)
      fields.done()
      const privateKey = readPrivateKeyText(family, text)
      try {
        return await noted(context, `a key of ${family} imported`, async () =>
          view(await vault.importKey(password, family, name, privateKey)),
        )
      } finally {
        privateKey.fill(0)
      }
    },
    async importMnemonic(input, context) {
      open(context)
      const fields = readFields(input, ['password', 'mnemonic'])
      const password = fields.text('password', 1_024)
      const mnemonic = fields.text('mnemonic', 1_024)
      fields.done()
      return noted(context, 'other recovery words taken in', async () => {
        await vault.importMnemonic(password, mnemonic)
        return list()
      })
    },
    async exportKey(input, context) {
      open(context)
      const fields = readFields(input, ['password', 'id'])
      const password = fields.text('password', 1_024)
      const id = fields.text('id', 128)
      fields.done()
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
    async exportMnemonic(input, context) {
      open(context)
      const fields = readFields(input, ['password'])
      const password = fields.text('password', 1_024)
      fields.done()
      return noted(context, 'the recovery words handed out', async () => ({
        mnemonic: await vault.exportMnemonic(password),
      }))
    },
    async changePassword(input, context) {
      assertSocket(context)
      const fields = readFields(input, ['password', 'new_password'])
      const password = fields.text('password', 1_024)
      const next = fields.text('new_password', 1_024)
      fields.done()
      return noted(context, 'the password changed', async () => {
        await vault.changePassword(password, next)
        return { changed: true as const }
      })
    },
    async backup(input, context) {
      open(context)
      const fields = readFields(input, ['file'])
      const file = fields.text('file', 4_096)
      fields.done()
      if (!isAbsolute(file) || file.includes('\0'))
        throw new VaultError('VALIDATION_ERROR', 'file: Expected an absolute path.')
      return noted(context, 'a backup written', async () => {
        await vault.backup(file)
        return { file }
      })
    },
  }
}

function familyOf(text: string): KeyFamily {
  if (text === 'evm' || text === 'solana') return text
  throw new VaultError('VALIDATION_ERROR', 'family: Expected evm or solana.')
}
