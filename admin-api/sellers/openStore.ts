import { randomUUID } from 'node:crypto'
import type { ChainName } from '../../core/domain/network.ts'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { prefixOf } from './apiKey.ts'
import { randomUsername } from './username.ts'

const USERNAME_TRIES = 5

/** The names of a new store. If there is no username, the store gets a random one. */
interface StoreNames {
  readonly username?: string | null
  readonly displayName?: string | null
  readonly avatarUrl?: string | null
}

export interface SignUpRequest extends StoreNames {
  readonly address: string
  readonly chain: ChainName
  readonly signature: string
  readonly message: string
  readonly replaceOldestKey?: boolean
}

export interface SignedUp {
  readonly store: Store
  readonly apiKey: string
  /** False if the wallet already had a store. */
  readonly created: boolean
}

/** A wallet whose owner has proved control of it. */
interface ProvenWallet {
  readonly chain: ChainName
  /** The wallet in its stored form, for queries. */
  readonly wallet: string
  readonly canonical: string
}

/** The input of a sign-up. The caller has proved control of the wallet. */
interface Proven extends ProvenWallet {
  readonly apiKey: string
  readonly keyHash: string
}

/**
 * The existing or a new store of a proven wallet, with the proven key. If it runs twice, in sequence or concurrently, there is
 * still only one store and one key.
 *
 * @throws `USERNAME_TAKEN`, `LIMIT_REACHED`
 */
export async function openStore(ports: Api, request: SignUpRequest, proven: Proven): Promise<SignedUp> {
  const known = await ports.stores.byWallet(proven.chain, proven.wallet)
  if (known !== undefined) return openKnown(ports, request, proven, known)
  try {
    const keyOf = (storeId: string, nowMs: number) => newKey(storeId, proven, nowMs)
    const { store } = await createStore(ports, request, proven, keyOf)
    return { store, apiKey: proven.apiKey, created: true }
  } catch (error) {
    if (!isTollgateError(error) || error.code !== 'CONFLICT') throw error
    // Another request has signed up with this wallet meanwhile. A wallet has only one store.
    const winner = await ports.stores.byWallet(proven.chain, proven.wallet)
    if (winner === undefined) throw error
    return openKnown(ports, request, proven, winner)
  }
}

/**
 * Creates a store for a wallet. The wallet becomes its payout wallet. If requested, the store gets a first key.
 *
 * @throws `USERNAME_TAKEN`; `CONFLICT` if the wallet has a store
 */
export async function createStore(
  ports: Pick<Api, 'stores' | 'clock'>,
  request: StoreNames,
  proven: ProvenWallet,
  keyOf: (storeId: string, nowMs: number) => ApiKey | null,
): Promise<{ store: Store }> {
  const nowMs = ports.clock.now()
  for (let tries = 1; ; tries++) {
    const username = request.username ?? randomUsername()
    const store: Store = {
      id: randomUUID(),
      username,
      displayName: request.displayName ?? username,
      bio: '',
      avatarUrl: request.avatarUrl ?? '',
      developerModeEnabled: false,
      createdBy: 'agent',
      payout: {
        base: proven.chain === 'base' ? proven.canonical : null,
        solana: proven.chain === 'solana' ? proven.canonical : null,
      },
      payoutChangedAtMs: null,
      socials: [],
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    }
    const wallet = { storeId: store.id, chain: proven.chain, address: proven.wallet }
    try {
      await ports.stores.create(store, wallet, keyOf(store.id, nowMs))
      return { store }
    } catch (error) {
      const isClash = isTollgateError(error) && error.code === 'USERNAME_TAKEN'
      if (!isClash || request.username != null || tries === USERNAME_TRIES) throw error
    }
  }
}

async function openKnown(
  ports: Api,
  request: SignUpRequest,
  proven: Proven,
  store: Store,
): Promise<SignedUp> {
  const key = newKey(store.id, proven, ports.clock.now())
  // The key already exists if an earlier try stored it and stopped before its response.
  if ((await ports.keys.byHash(proven.keyHash)) === undefined) {
    try {
      await ports.keys.add(key, ports.maxActiveKeys)
    } catch (error) {
      if (!isTollgateError(error) || error.code !== 'LIMIT_REACHED') throw error
      if (request.replaceOldestKey !== true) throw tooManyKeys(ports.maxActiveKeys)
      await revokeLeastUsed(ports, store.id)
      await ports.keys.add(key, ports.maxActiveKeys)
    }
  }
  return { store, apiKey: proven.apiKey, created: false }
}

async function revokeLeastUsed(ports: Api, storeId: string): Promise<void> {
  const active = (await ports.keys.ofStore(storeId)).filter((key) => key.isActive)
  const lastUse = (key: ApiKey) => key.lastUsedAtMs ?? key.createdAtMs
  const [oldest] = active.sort((a, b) => lastUse(a) - lastUse(b))
  if (oldest === undefined) return
  await ports.keys.revoke(storeId, oldest.id, ports.clock.now())
  ports.keyRing.forget(oldest.keyHash)
}

const newKey = (storeId: string, proven: Proven, nowMs: number): ApiKey => ({
  id: randomUUID(),
  storeId,
  name: 'Wallet sign-in',
  keyPrefix: prefixOf(proven.apiKey),
  keyHash: proven.keyHash,
  isActive: true,
  lastUsedAtMs: null,
  revokedAtMs: null,
  createdAtMs: nowMs,
})

const tooManyKeys = (maximum: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has reached its limit of ${maximum} active keys. Revoke one with DELETE /api/agent/keys/:id, or sign up with replaceOldestKey: true to revoke the least recently used key.`,
  )
