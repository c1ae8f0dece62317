import type { Asset } from '../../../core/domain/asset.ts'
import { feeOf, formatAmount, valueE18 } from '../../../core/domain/money.ts'
import { checksumAddress } from '../../../core/evm/hex.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/stats.ts'
import { changedCounts } from '../sql/sales/buyerCounts.ts'
import { scopeOfLink } from '../sql/sales/saleRollups.ts'
import { idOf } from './channels.ts'
import { noteEvents, position } from './events.ts'
import { list, type Piece, part, row, type Steps, type Tx, table, words } from './transaction.ts'

const MINUTE_MS = 60_000
/** Numbers of buyers from here on are of wallets that paid by a channel before they paid by a transfer. */
const FIRST_CHANNEL_BUYER = 2 ** 31

/**
 * Rows that a charge has locked are left for the next run. A charge locks the rows of many channels in any order, so waiting for them
 * could deadlock.
 */
const freeSums = words('', 'FOR UPDATE OF s SKIP LOCKED')
const bytesOfBuyers = words('unhex(n.buyers)', "decode(n.buyers, 'hex')")
/** SQLite could mistake the ON of a conflict for a join's. */
const whole = words('WHERE true', '')

const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')

/** A sum of a channel: of a link in one hour, or of claims. */
interface DueRow {
  readonly id: Uint8Array
  readonly amount: string
  readonly network: string
  readonly token: string
  readonly store_id: string
}

interface SumRow extends DueRow {
  readonly link_id: string
  readonly at: number
  readonly calls: number
  readonly payer: string
  readonly is_own: number
  readonly listens: number
}

const nameOf = (network: string, token: string): string => `${network} ${token.toLowerCase()}`
const byName = (assets: readonly Asset[]) =>
  new Map(assets.map((asset) => [nameOf(asset.network, asset.address), asset]))
const isKnown = (assets: readonly Asset[]): Piece =>
  part`k.network || ' ' || k.token IN ${list([...byName(assets).keys()])}`

export const channelBookWrites = {
  *book(tx: Tx, assets: readonly Asset[], limit: number): Steps<number> {
    // Sales by transfers are added to the rollups under the same name.
    yield* tx.hold('sums')
    const sums = yield* tx.all<SumRow>`
      SELECT s.*, k.network, k.token, k.store_id, k.payer,
        CASE WHEN EXISTS (SELECT 1 FROM store_wallets w WHERE w.store_id = k.store_id AND w.address = k.payer)
          OR EXISTS (SELECT 1 FROM stores o WHERE o.id = k.store_id AND lower(o.payout_base) = k.payer)
          THEN 1 ELSE 0 END AS is_own,
        CASE WHEN EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = k.store_id
            AND e.disabled_at_ms IS NULL AND ${position}(e.kinds, '"channel.charged"') > 0)
          THEN 1 ELSE 0 END AS listens
      FROM channel_sums s JOIN channel_configs k ON k.id = s.id WHERE ${isKnown(assets)}
      ORDER BY s.id, s.link_id, s.at LIMIT ${limit} + 0 ${freeSums}`
    const claims = yield* tx.all<DueRow>`SELECT s.*, k.network, k.token, k.store_id
      FROM channel_claims s JOIN channel_configs k ON k.id = s.id WHERE ${isKnown(assets)}
      ORDER BY s.id LIMIT ${limit} + 0 ${freeSums}`
    if (sums.length > 0) {
      yield* addSales(tx, sums)
      yield* addMinutes(tx, sums)
      yield* addRollups(tx, sums, assets)
    }
    if (claims.length > 0) {
      const ids = claims.map(({ id }) => ({ id: hexOf(id) }))
      yield* tx.run`DELETE FROM channel_claims WHERE id IN (SELECT ${idOf('n')} FROM ${table('n', { id: 'text' }, ids)})`
      yield* addFees(tx, claims, assets)
    }
    yield* addTotals(tx, sums, claims)
    return sums.length + claims.length
  },

  *addEvents(tx: Tx, assets: readonly Asset[], limit: number): Steps<number> {
    yield* tx.hold('sums')
    const over = Math.floor(tx.nowMs / MINUTE_MS)
    const minutes = yield* tx.all<SumRow>`
      SELECT s.*, k.network, k.token, k.store_id, k.payer FROM channel_minutes s JOIN channel_configs k ON k.id = s.id
      WHERE s.at < ${over} AND ${isKnown(assets)} ORDER BY s.at, s.id, s.link_id LIMIT ${limit} + 0`
    if (minutes.length === 0) return 0
    const groups = [...Map.groupBy(minutes, ({ at, id }) => `${at} ${hexOf(id)}`).values()]
    // The page may end within a channel's minute, which the next page has as a whole. A minute of more links has several events.
    if (minutes.length === limit && groups.length > 1) groups.pop()
    const known = byName(assets)
    const events = groups.map((of) => eventOf(of, known.get(nameOf(of[0]!.network, of[0]!.token))!))
    const columns = { store_id: 'text', detail: 'text', at_ms: 'bigint' } as const
    yield* noteEvents(
      tx,
      'channel.charged',
      part`SELECT m.store_id, NULL AS link_id, NULL AS purchase_id, NULL AS session_id, m.detail, m.at_ms
        FROM ${table('m', columns, events)}`,
    )
    const told = groups.flat().map(({ id, link_id, at }) => ({ id: hexOf(id), link_id, at }))
    yield* tx.run`DELETE FROM channel_minutes WHERE (at, id, link_id) IN (SELECT n.at, ${idOf('n')}, n.link_id
      FROM ${table('n', keyColumns, told)})`
    return minutes.length
  },
}

/** The event of a channel's minute, from its sums by link. */
function eventOf(sums: readonly SumRow[], { address, symbol, decimals }: Asset) {
  const { id, at, store_id, payer, network } = sums[0]!
  const amountOf = (of: readonly SumRow[]) =>
    formatAmount(
      of.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
      decimals,
      2,
    )
  const detail = JSON.stringify({
    channelId: `0x${hexOf(id)}`,
    payer: checksumAddress(payer),
    calls: sums.reduce((sum, { calls }) => sum + calls, 0),
    amount: amountOf(sums),
    currency: symbol,
    network,
    asset: address,
    fromMs: at * MINUTE_MS,
    links: sums.map((one) => ({ linkId: one.link_id, calls: one.calls, amount: amountOf([one]) })),
  })
  return { store_id, detail, at_ms: (at + 1) * MINUTE_MS }
}

const keyColumns = { id: 'text', link_id: 'text', at: 'bigint' } as const
const sumColumns = { ...keyColumns, calls: 'bigint', amount: 'text' } as const

interface KeptSum {
  readonly id: string
  readonly link_id: string
  readonly at: number
  readonly calls: number
  readonly amount: string
}

/** Adds sums to those of a table with the same key. */
function* addTo(tx: Tx, name: 'channel_sales' | 'channel_minutes', sums: readonly KeptSum[]): Steps<void> {
  const into = words(name, name)
  const found = yield* tx.all<Omit<KeptSum, 'id'> & { id: Uint8Array }>`SELECT s.* FROM
    ${table('n', keyColumns, sums)} CROSS JOIN ${into} s
    WHERE s.id = ${idOf('n')} AND s.link_id = n.link_id AND s.at = n.at`
  const keyOf = (id: string, { link_id, at }: Omit<KeptSum, 'id'>) => `${id} ${link_id} ${at}`
  const before = new Map(found.map((one) => [keyOf(hexOf(one.id), one), one]))
  const after = sums.map((one) => {
    const was = before.get(keyOf(one.id, one))
    return {
      ...one,
      calls: one.calls + (was?.calls ?? 0),
      amount: String(BigInt(one.amount) + BigInt(was?.amount ?? 0)),
    }
  })
  yield* tx.run`INSERT INTO ${into} (id, link_id, at, calls, amount)
    SELECT ${idOf('n')}, n.link_id, n.at, n.calls, n.amount FROM ${table('n', sumColumns, after)} ${whole}
    ON CONFLICT (id, link_id, at) DO UPDATE SET calls = excluded.calls, amount = excluded.amount`
}

function* addSales(tx: Tx, sums: readonly SumRow[]): Steps<void> {
  const moved = sums.map(({ id, link_id, at, calls, amount }) => ({
    id: hexOf(id),
    link_id,
    at,
    calls,
    amount,
  }))
  yield* tx.run`DELETE FROM channel_sums WHERE (id, link_id, at) IN (
    SELECT ${idOf('n')}, n.link_id, n.at FROM ${table('n', keyColumns, moved)})`
  yield* addTo(tx, 'channel_sales', moved)
  // Discovery counts the buyers of these links again.
  const links = [...new Set(moved.map(({ link_id }) => link_id))].filter((id) => id !== '').toSorted()
  const sold = links.map((link_id) => ({ link_id }))
  yield* tx.run`INSERT INTO link_stats AS s (link_id, changed)
    SELECT n.link_id, 1 FROM ${table('n', { link_id: 'text' }, sold)} ${whole}
    ON CONFLICT (link_id) DO UPDATE SET changed = s.changed + 1`
}

/** Sums of this minute, for the webhooks of stores that subscribe to them. */
function* addMinutes(tx: Tx, sums: readonly SumRow[]): Steps<void> {
  const at = Math.floor(tx.nowMs / MINUTE_MS)
  const told = sums.filter(({ listens, calls }) => listens === 1 && calls > 0)
  const byLink = Map.groupBy(told, ({ id, link_id }) => `${hexOf(id)} ${link_id}`)
  const minutes = [...byLink.values()].map((of) => ({
    id: hexOf(of[0]!.id),
    link_id: of[0]!.link_id,
    at,
    calls: of.reduce((sum, { calls }) => sum + calls, 0),
    amount: String(of.reduce((sum, { amount }) => sum + BigInt(amount), 0n)),
  }))
  if (minutes.length > 0) yield* addTo(tx, 'channel_minutes', minutes)
}

/** Adds the sums to the statistics of stores and links. Payments by the store's own wallets are left out. */
function* addRollups(tx: Tx, sums: readonly SumRow[], assets: readonly Asset[]): Steps<void> {
  const sold = sums.filter(({ is_own }) => is_own === 0)
  if (sold.length === 0) return
  const numbers = yield* buyersOf(tx, [...new Set(sold.map(({ payer }) => payer))].toSorted())
  const known = byName(assets)
  const rollups = new Map<string, Rollup>()
  for (const { network, token, store_id: store, link_id: link, at: hour, calls, amount, payer } of sold) {
    const { usdPerUnit, decimals } = known.get(nameOf(network, token))!
    const revenueE18 = valueE18(BigInt(amount), usdPerUnit, decimals)
    const day = Math.floor((hour * HOUR_MS) / DAY_MS)
    const add = (unit: Rollup['unit'], at: number, scope: string) => {
      const key = `${unit} ${at} ${scope}`
      const sum = rollups.get(key) ?? { unit, at, scope, calls: 0, revenueE18: 0n, buyers: new Map() }
      rollups.set(key, sum)
      sum.calls += calls
      sum.revenueE18 += revenueE18
      const buyer = numbers.get(payer)!
      sum.buyers.set(buyer, (sum.buyers.get(buyer) ?? 0) + calls)
    }
    add('channel_day', day, store)
    add('channel_hour', hour, store)
    if (link === '') continue
    add('channel_day', day, scopeOfLink(store, link))
    add('channel_hour', hour, scopeOfLink(store, link))
  }
  yield* writeRollups(tx, [...rollups.values()])
}

interface Rollup {
  readonly unit: 'channel_day' | 'channel_hour'
  readonly at: number
  readonly scope: string
  calls: number
  revenueE18: bigint
  readonly buyers: Map<number, number>
}

const rollupKey = { unit: 'text', at: 'bigint', scope: 'text' } as const
const rollupColumns = { ...rollupKey, calls: 'bigint', revenue_e18: 'text', buyers: 'text' } as const

interface RollupRow {
  readonly unit: string
  readonly at: number
  readonly scope: string
  readonly calls: number
  readonly revenue_e18: string
  readonly buyers: Uint8Array | null
}

function* writeRollups(tx: Tx, rollups: readonly Rollup[]): Steps<void> {
  const keys = rollups.map(({ unit, at, scope }) => ({ unit, at, scope }))
  const found = yield* tx.all<RollupRow>`SELECT s.unit, s.at, s.scope, s.calls, s.revenue_e18, s.buyers
    FROM ${table('n', rollupKey, keys)} CROSS JOIN sales_rollups s
    WHERE s.unit = n.unit AND s.at = n.at AND s.scope = n.scope`
  const nameOfRollup = ({ unit, at, scope }: Pick<RollupRow, keyof typeof rollupKey>) =>
    `${unit} ${at} ${scope}`
  const before = new Map(found.map((one) => [nameOfRollup(one), one]))
  const after = rollups.map((rollup) => {
    const was = before.get(nameOfRollup(rollup))
    const buyers = changedCounts(was?.buyers ?? null, rollup.buyers)
    return {
      unit: rollup.unit,
      at: rollup.at,
      scope: rollup.scope,
      calls: rollup.calls + (was?.calls ?? 0),
      revenue_e18: String(rollup.revenueE18 + BigInt(was?.revenue_e18 ?? 0)),
      buyers: buyers && hexOf(buyers),
    }
  })
  yield* tx.run`INSERT INTO sales_rollups (unit, at, scope, calls, revenue_e18, refunds, refunded_e18, buyers)
    SELECT n.unit, n.at, n.scope, n.calls, n.revenue_e18, 0, '0', ${bytesOfBuyers}
    FROM ${table('n', rollupColumns, after)} ${whole}
    ON CONFLICT (unit, at, scope) DO UPDATE SET calls = excluded.calls, revenue_e18 = excluded.revenue_e18,
      buyers = excluded.buyers`
}

/** The number of each buyer, as the sets of buyers in the rollups have it. */
function* buyersOf(tx: Tx, wallets: readonly string[]): Steps<ReadonlyMap<string, number>> {
  const found = yield* tx.all<{ wallet: string; number: number }>`
    SELECT wallet, number FROM buyers WHERE wallet IN ${list(wallets)}`
  const numbers = new Map(found.map(({ wallet, number }) => [wallet, number]))
  const fresh = wallets.filter((wallet) => !numbers.has(wallet))
  if (fresh.length === 0) return numbers
  const last = yield* tx.one<{ number: number | null }>`
    SELECT max(number) AS number FROM buyers WHERE number >= 2147483648`
  const first = last?.number == null ? FIRST_CHANNEL_BUYER : last.number + 1
  const added = fresh.map((wallet, i) => ({ wallet, number: first + i }))
  yield* tx.run`INSERT INTO buyers (wallet, number)
    SELECT n.wallet, n.number FROM ${table('n', { wallet: 'text', number: 'bigint' }, added)}`
  for (const { wallet, number } of added) numbers.set(wallet, number)
  return numbers
}

function* addTotals(tx: Tx, sums: readonly SumRow[], claims: readonly DueRow[]): Steps<void> {
  const changes = new Map<string, Change>()
  const keyOf = ({ store_id, network, token }: Pick<DueRow, keyof typeof totalKey>) =>
    `${store_id} ${nameOf(network, token)}`
  const changeOf = (of: DueRow) => {
    const key = keyOf(of)
    const known = changes.get(key) ?? { of, calls: 0, charged: 0n, claimed: 0n, soldAtMs: null }
    changes.set(key, known)
    return known
  }
  for (const sum of sums) {
    const change = changeOf(sum)
    change.calls += sum.calls
    change.charged += BigInt(sum.amount)
    change.soldAtMs = Math.max(change.soldAtMs ?? 0, Math.min(tx.nowMs, (sum.at + 1) * HOUR_MS))
  }
  for (const claim of claims) changeOf(claim).claimed += BigInt(claim.amount)
  if (changes.size === 0) return
  const keys = [...changes.values()].map(({ of: { store_id, network, token } }) => ({
    store_id,
    network,
    token,
  }))
  const found =
    yield* tx.all<TotalRow>`SELECT s.* FROM ${table('n', totalKey, keys)} CROSS JOIN channel_totals s
    WHERE s.store_id = n.store_id AND s.network = n.network AND s.token = n.token`
  const before = new Map(found.map((one) => [keyOf(one), one]))
  const after = [...changes].map(([key, { of, calls, charged, claimed, soldAtMs }]): TotalRow => {
    const was = before.get(key)
    return {
      store_id: of.store_id,
      network: of.network,
      token: of.token,
      calls: calls + (was?.calls ?? 0),
      charged: String(charged + BigInt(was?.charged ?? 0)),
      claimed: String(claimed + BigInt(was?.claimed ?? 0)),
      last_sale_at_ms: soldAtMs ?? was?.last_sale_at_ms ?? null,
    }
  })
  yield* tx.run`INSERT INTO channel_totals (store_id, network, token, calls, charged, claimed, last_sale_at_ms)
    SELECT n.store_id, n.network, n.token, n.calls, n.charged, n.claimed, n.last_sale_at_ms
    FROM ${table('n', totalColumns, after)} ${whole}
    ON CONFLICT (store_id, network, token) DO UPDATE SET calls = excluded.calls, charged = excluded.charged,
      claimed = excluded.claimed, last_sale_at_ms = excluded.last_sale_at_ms`
}

/** What a booking adds to the totals of a store in one token. */
interface Change {
  readonly of: DueRow
  calls: number
  charged: bigint
  claimed: bigint
  soldAtMs: number | null
}

const totalKey = { store_id: 'text', network: 'text', token: 'text' } as const
const totalColumns = {
  ...totalKey,
  calls: 'bigint',
  charged: 'text',
  claimed: 'text',
  last_sale_at_ms: 'bigint',
} as const

interface TotalRow {
  readonly store_id: string
  readonly network: string
  readonly token: string
  readonly calls: number
  readonly charged: string
  readonly claimed: string
  readonly last_sale_at_ms: number | null
}

/** Adds the fees of claims to those of this month. A claim whose block has left the chain is negative, and takes its fee back. */
function* addFees(tx: Tx, claims: readonly DueRow[], assets: readonly Asset[]): Steps<void> {
  const known = byName(assets)
  const month = new Date(tx.nowMs).toISOString().slice(0, 7)
  const byToken = Map.groupBy(
    claims,
    ({ store_id, network, token }) => `${store_id} ${nameOf(network, token)}`,
  )
  for (const of of byToken.values()) {
    const { store_id, network, token } = of[0]!
    const { address: asset, symbol, decimals, feeBps } = known.get(nameOf(network, token))!
    const amounts = of.map(({ amount }) => BigInt(amount))
    const was = yield* tx.one<{ claims: number; claimed: string; fees: string }>`SELECT * FROM channel_fees
      WHERE store_id = ${store_id} AND month = ${month} AND network = ${network} AND asset = ${asset}
        AND symbol = ${symbol} AND decimals = ${decimals}`
    const before = BigInt(was?.claimed ?? 0)
    const claimed = amounts.reduce((sum, amount) => sum + amount, before)
    // A fee of each claim would be rounded down each time, and a claim that is taken back would not take back the same amount.
    const fees = BigInt(was?.fees ?? 0) + feeOf(claimed, feeBps) - feeOf(before, feeBps)
    yield* tx.run`INSERT INTO channel_fees ${row({
      store_id,
      month,
      network,
      asset,
      symbol,
      decimals,
      claims: amounts.reduce(
        (sum, amount) => sum + (amount > 0n ? 1 : amount < 0n ? -1 : 0),
        was?.claims ?? 0,
      ),
      claimed: String(claimed),
      fees: String(fees),
    })} ON CONFLICT (store_id, month, network, asset, symbol, decimals) DO UPDATE SET claims = excluded.claims,
      claimed = excluded.claimed, fees = excluded.fees`
  }
}
