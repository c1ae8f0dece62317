import { randomUUID } from 'node:crypto'
import { createWalletProofs } from '../../adapters/chains/wallets/walletProofs.ts'
import { loadSecret } from '../../adapters/secrets/loadSecret.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { hiddenCharacterIn, refusalOf } from '../../admin-api/http/validation.ts'
import { createApiKey, prefixOf } from '../../admin-api/sellers/apiKey.ts'
import { isReservedUsername, usernameForm } from '../../admin-api/sellers/username.ts'
import type { Payout } from '../../core/domain/link.ts'
import type { ChainName } from '../../core/domain/network.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { UsageError } from '../output/exitCodes.ts'
import { openDataStore } from './open/openStore.ts'
import { readConfig } from './readConfig.ts'

export interface PayoutSet {
  readonly username: string
  readonly was: Payout
  readonly payout: Payout
}

/**
 * Sets a store's payout wallets as the operator. No wallet has to sign, because the operator can write to the database anyway.
 * A running gateway offers the new wallets within a second.
 *
 * @param to the wallets that change. Null removes a wallet
 * @throws `UsageError` for an unknown store, an invalid wallet, or nothing to set
 */
export async function setPayout(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
  username: string,
  to: Partial<Payout>,
): Promise<PayoutSet> {
  const { base, solana } = to
  if (base === undefined && solana === undefined) {
    throw new UsageError('Expected --base or --solana with an address, or with none to remove the wallet.')
  }
  const payout: Partial<Payout> = {
    ...(base !== undefined && { base: base && walletOf('base', base) }),
    ...(solana !== undefined && { solana: solana && walletOf('solana', solana) }),
  }
  const { config } = await readConfig(configFile, env)
  const db = await openDataStore(config, systemClock, silentLog)
  try {
    const store = await db.stores.byUsername(username)
    if (store === undefined) {
      throw new UsageError(
        `Expected the username of a store of this gateway, got ${JSON.stringify(username)}.`,
      )
    }
    const after = await db.stores.update(store.id, { payout }, systemClock.now())
    return { username, was: store.payout, payout: after?.payout ?? store.payout }
  } finally {
    await db.close()
  }
}

export interface NewStore {
  readonly username: string
  readonly displayName?: string
  /** Payout wallets of the store. */
  readonly base?: string
  readonly solana?: string
}

export interface CreatedStore {
  readonly username: string
  readonly storeUrl: string
  readonly apiKey: string
}

/**
 * Creates a store as the operator, also while a gateway runs. No wallet has to sign, because the operator can write to the
 * database anyway.
 *
 * @throws `UsageError` for an invalid username or wallet, `USERNAME_TAKEN`
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
      name: 'Created by the operator',
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
 * Checks the names of a new store and returns its payout wallets.
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

/** Converts a wallet to its stored form. @throws `UsageError` that names the option */
export function walletOf(chain: ChainName, address: string): string {
  const canonical = createWalletProofs({}).canonicalAddress(chain, address)
  if (canonical !== undefined) return canonical
  const form = chain === 'base' ? 'a 0x address with a correct checksum' : 'a base58 address of 32 bytes'
  throw new UsageError(`Expected --${chain} to be ${form}, got ${JSON.stringify(address)}.`)
}
