import type { Payout } from '../../../core/domain/link.ts'
import { openStates, type PaymentState } from '../../../core/domain/payment.ts'
import type { Store } from '../../../core/domain/store.ts'
import { tooManyRenames, usernameTaken, walletTaken } from '../../../core/ports/refusals.ts'
import type { Stores } from '../../../core/ports/store/stores.ts'
import type { Access } from './access.ts'
import type { Memory } from './memory.ts'

const dayMs = 24 * 60 * 60 * 1000
const redirectMs = 30 * dayMs

/** Sellers' accounts in memory. A former username belongs to its store as long as it redirects. */
export function createStores(memory: Memory, { read, write }: Access): Stores {
  const { stores, paidSince, pictures, wallets, formerNames, renames, keys } = memory.tables
  const { purchases, payments } = memory.tables
  const called = (username: string) => stores.values().find((store) => store.username === username)

  function put(store: Store): void {
    const before = stores.get(store.id)
    const former = formerNames.get(store.username)
    const other = called(store.username)
    const isKept =
      former !== undefined && former.storeId !== store.id && former.expiresAtMs > store.updatedAtMs
    if (isKept || (other !== undefined && other.id !== store.id)) throw usernameTaken(store.username)
    stores.set(store.id, store)
    memory.note({ kind: 'store', username: store.username })
    if (before !== undefined && before.username !== store.username)
      memory.note({ kind: 'store', username: before.username })
  }

  const hasSold = (storeId: string): boolean =>
    purchases.values().some(({ purchase }) => purchase.storeId === storeId) ||
    payments.values().some((payment) => payment.storeId === storeId && isOpen(payment.state))

  /** A store that has sold keeps its former names until they expire; one that has not keeps the last. */
  function forgetFormerNames(storeId: string, renamedTo: string, atMs: number): void {
    const isKnown = hasSold(storeId)
    for (const username of formerNames.keys()) {
      const former = formerNames.get(username)!
      if (former.storeId !== storeId) continue
      if (isKnown && username !== renamedTo && former.expiresAtMs > atMs) continue
      formerNames.delete(username)
      memory.note({ kind: 'store', username })
    }
  }

  function countRename({ id }: Store, atMs: number, maxADay: number): void {
    const latest = (renames.get(id) ?? []).filter((one) => one > atMs - dayMs)
    if (latest.length >= maxADay) {
      const counted = latest.sort((a, b) => b - a)[maxADay - 1] ?? atMs
      throw tooManyRenames(maxADay, counted + dayMs, atMs)
    }
    renames.set(id, [...latest, atMs])
  }

  return {
    create: (store, wallet, key) =>
      write('flushed', () => {
        put({ ...store, payoutChangedAtMs: null, socials: [] })
        paidSince.set(store.id, { base: store.createdAtMs, solana: store.createdAtMs })
        if (wallet !== null) {
          const address = `${wallet.chain} ${wallet.address}`
          if (wallets.has(address)) throw walletTaken()
          wallets.set(address, wallet)
        }
        if (key !== null) keys.set(key.id, key)
      }),

    update: (id, { payout, ...patch }, updatedAtMs, { maxRenamesADay, payoutWas } = {}) =>
      write('flushed', () => {
        const store = stores.get(id)
        if (store === undefined || !isPaidTo(store, payoutWas)) return undefined
        const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
        const paidTo = payout && { payout: { ...store.payout, ...payout }, payoutChangedAtMs: updatedAtMs }
        const next: Store = { ...store, ...given, ...paidTo, updatedAtMs }
        if (next.username !== store.username) {
          countRename(store, updatedAtMs, maxRenamesADay ?? Number.MAX_SAFE_INTEGER)
          forgetFormerNames(id, next.username, updatedAtMs)
          formerNames.set(store.username, { storeId: id, expiresAtMs: updatedAtMs + redirectMs })
        }
        put(next)
        const since = paidSince.get(id)!
        paidSince.set(id, {
          base: next.payout.base === store.payout.base ? since.base : updatedAtMs,
          solana: next.payout.solana === store.payout.solana ? since.solana : updatedAtMs,
        })
        if (!next.avatarUrl.includes(pictures.get(id)?.hash ?? '')) pictures.delete(id)
        return next
      }),

    find: (id) => read(() => stores.get(id)),
    byUsername: (username) => read(() => called(username)),

    byWallet: (chain, address) =>
      read(() => {
        const wallet = wallets.get(`${chain} ${address}`)
        return wallet && stores.get(wallet.storeId)
      }),

    paidLonger: (storeId, chain, address) =>
      read(() => {
        const sinceMs = ({ id }: Store) => paidSince.get(id)![chain]
        const paidThere = stores
          .values()
          .filter(({ payout }) => payout[chain] === address)
          .sort((a, b) => sinceMs(a) - sinceMs(b) || (a.id < b.id ? -1 : 1))
          .map(({ id }) => id)
        const own = paidThere.indexOf(storeId)
        return own === -1 ? paidThere : paidThere.slice(0, own)
      }),

    payoutWallets: (chain) =>
      read(() => [...new Set(stores.values().flatMap(({ payout }) => payout[chain] ?? []))]),

    walletsOf: (storeId) =>
      read(() =>
        wallets
          .values()
          .filter((wallet) => wallet.storeId === storeId)
          .sort((a, b) => (`${a.chain} ${a.address}` < `${b.chain} ${b.address}` ? -1 : 1)),
      ),

    hasSold: (id) => read(() => hasSold(id)),

    redirectOf: (username, nowMs) =>
      read(() => {
        const former = formerNames.get(username)
        return former && former.expiresAtMs > nowMs ? stores.get(former.storeId)?.username : undefined
      }),
  }
}

const isOpen = (state: PaymentState): boolean => (openStates as readonly PaymentState[]).includes(state)

const isPaidTo = ({ payout }: Store, { base, solana }: Partial<Payout> = {}): boolean =>
  (base === undefined || payout.base === base) && (solana === undefined || payout.solana === solana)
