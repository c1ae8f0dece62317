import { randomUUID } from 'node:crypto'
import { createWalletProofs } from '../../adapters/chains/wallets/createWalletProofs.ts'
import { createSealer } from '../../adapters/secrets/createSealer.ts'
import { loadSecret } from '../../adapters/secrets/loadSecret.ts'
import { createApiKey, prefixOf } from '../../admin-api/auth/apiKey.ts'
import { hiddenCharacterIn, refusalOf } from '../../admin-api/schema/hiddenCharacter.ts'
import { isReservedUsername, usernameForm } from '../../admin-api/stores/username.ts'
import type { Payout } from '../../core/domain/link.ts'
import type { ChainName } from '../../core/domain/network.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { UsageError } from '../output/exitCodes.ts'
import { openDataStore } from './open/openStore.ts'
import { readConfig } from './readConfig.ts'

export interface NewStore {
  readonly username: string
  readonly displayName?: string
  /** Wallets that the store's sales are paid to. */
  readonly base?: string
  readonly solana?: string
}

export interface CreatedStore {
  readonly username: string
  readonly storeUrl: string
  readonly apiKey: string
}

/**
 * Opens a store as the operator: no wallet signs, because whoever can write the database may do this. Works beside a
 * running gateway.
 *
 * @throws `UsageError` for a username or wallet that can't be; `USERNAME_TAKEN`
 */
export async function createStore(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
  newStore: NewStore,
): Promise<CreatedStore> {
  const { username, displayName = username } = newStore
  const payout = payoutOf(newStore)
  const { config } = await readConfig(configFile, env)
  const sealer = createSealer(loadSecret({ file: config.secretFile, env }))
  const store = await openDataStore(config, systemClock, silentLog)
  try {
    const nowMs = systemClock.now()
    const id = randomUUID()
    const apiKey = createApiKey()
    const common = {
      bio: '',
      avatarUrl: '',
      developerModeEnabled: true,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    }
    await store.stores.create({ ...common, id, username, displayName, createdBy: 'operator', payout }, null, {
      id: randomUUID(),
      storeId: id,
      name: 'Made by the operator',
      keyPrefix: prefixOf(apiKey),
      keyHash: sealer.mac('api-key', apiKey).toString('hex'),
      isActive: true,
      lastUsedAtMs: null,
      revokedAtMs: null,
      createdAtMs: nowMs,
    })
    return { username, storeUrl: `${config.publicUrl.replace(/\/+$/, '')}/${username}`, apiKey }
  } finally {
    await store.close()
  }
}

/**
 * The wallets of a store that can be opened under this name.
 * @throws `UsageError`
 */
export function payoutOf({ username, displayName = username, base, solana }: NewStore): Payout {
  if (!usernameForm.test(username)) {
    throw new UsageError(
      `Expected a username of 3 to 32 characters a-z, 0-9 and _, got ${JSON.stringify(username)}.`,
    )
  }
  if (isReservedUsername(username))
    throw new UsageError(`The username ${username} is reserved for the gateway's own addresses.`)
  const hidden = hiddenCharacterIn(displayName, 'one')
  if (hidden !== undefined) throw new UsageError(refusalOf(hidden))
  return {
    base: base === undefined ? null : walletOf('base', base),
    solana: solana === undefined ? null : walletOf('solana', solana),
  }
}

/** A wallet as it is kept. @throws `UsageError` that names the option */
export function walletOf(chain: ChainName, address: string): string {
  const canonical = createWalletProofs({}).canonicalAddress(chain, address)
  if (canonical !== undefined) return canonical
  const form = chain === 'base' ? 'a 0x address with a correct checksum' : 'a base58 address of 32 bytes'
  throw new UsageError(`Expected --${chain} to be ${form}, got ${JSON.stringify(address)}.`)
}
