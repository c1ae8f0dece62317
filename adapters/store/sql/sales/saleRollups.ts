import { parseAmount } from '../../../../core/domain/money.ts'
import { DAY_MS, HOUR_MS } from '../../../../core/ports/store/stats.ts'
import type { Row } from '../rows.ts'

/** The sales of a store, or of one of its links, within one day or hour. Purchases by the store's own wallets are left out. */
export interface SalesSum {
  readonly unit: 'day' | 'hour'
  readonly scope: string
  readonly at: number
  calls: number
  revenueE18: bigint
  refunds: number
  refundedE18: bigint
  /** Number of purchases, by the buyer's number. */
  readonly buyers: Map<number, number>
}

/** The sales of a store in one token within one month, including purchases by its own wallets. */
export interface FeeSum {
  readonly key: readonly [
    store: string,
    month: string,
    network: string,
    unit: string,
    symbol: string,
    decimals: number,
  ]
  readonly asset: string
  sales: number
  sold: bigint
  fees: bigint
  refunds: number
  refunded: bigint
  returned: bigint
  standing: bigint
}

/** The scope of a link's rollups. */
export const scopeOfLink = (storeId: string, linkId: string): string => `${storeId}/${linkId}`

/** The scope of the rollups of a store, or of one of its links. */
export const scopeOf = (storeId: string, linkId: string | undefined): string =>
  linkId === undefined ? storeId : scopeOfLink(storeId, linkId)

/**
 * An address in lower case if case does not matter. This is so on EVM chains. Case matters in a Solana address, which is base58.
 */
const canonical = (row: Row, name: 'buyer_wallet' | 'asset'): string =>
  String(row['network']).startsWith('eip155:') ? String(row[name]).toLowerCase() : String(row[name])
export const walletOf = (row: Row): string => canonical(row, 'buyer_wallet')

const stands = (status: unknown): boolean => status === 'settled' || status === 'delivered'

/**
 * Adds one note to the rollups. A note has the status of a purchase before (`was`) and after (`became`) a change. If both are null,
 * the purchase's refund was recorded. If only `became` is null, a reorganization undid the refund. A note also has the time of the
 * refund.
 *
 * @param buyerOf the number of a purchase's buyer; undefined for a purchase by one of the store's own wallets
 */
export function addStats<Sold extends Row>(
  rollups: Map<string, SalesSum>,
  row: Sold,
  buyerOf: ((row: Sold) => number) | undefined,
): void {
  if (buyerOf === undefined) return
  const { was, became, store_id: storeId, link_id: linkId } = row
  const isRefund = became === null
  const sign = Number(stands(became)) - Number(stands(was))
  if (sign === 0 && !isRefund) return
  const atMs = Number(isRefund ? row['refunded_at_ms'] : row['created_at_ms'])
  const priceE18 = parseAmount(String(row['price_usd']), 18)
  const buyer = isRefund ? 0 : buyerOf(row)
  const add = (unit: SalesSum['unit'], scope: string, at: number) => {
    const key = `${unit} ${at} ${scope}`
    let sum = rollups.get(key)
    if (sum === undefined) {
      sum = { unit, scope, at, calls: 0, revenueE18: 0n, refunds: 0, refundedE18: 0n, buyers: new Map() }
      rollups.set(key, sum)
    }
    if (isRefund) {
      sum.refunds += was === null ? 1 : -1
      sum.refundedE18 += was === null ? priceE18 : -priceE18
      return
    }
    sum.calls += sign
    sum.revenueE18 += sign > 0 ? priceE18 : -priceE18
    sum.buyers.set(buyer, (sum.buyers.get(buyer) ?? 0) + sign)
  }
  const day = Math.floor(atMs / DAY_MS)
  add('day', String(storeId), day)
  add('hour', String(storeId), Math.floor(atMs / HOUR_MS))
  if (linkId !== '') add('day', scopeOfLink(String(storeId), String(linkId)), day)
}

const counts = {
  sales: (status: unknown) => Number(status !== null && status !== 'reorged'),
  refunds: (status: unknown) => Number(status === 'refunded'),
  standing: (status: unknown) => Number(status !== null && status !== 'reorged' && status !== 'refunded'),
} as const

export function addFees(rollups: Map<string, FeeSum>, row: Row): void {
  const { was, became } = row
  if (became === null) return
  const change = (name: keyof typeof counts) => counts[name](became) - counts[name](was)
  const [sales, refunds, standing] = [change('sales'), change('refunds'), change('standing')]
  const sumOf = (atMs: unknown): FeeSum => {
    const month = new Date(Number(atMs)).toISOString().slice(0, 7)
    const [store, network, symbol] = [row['store_id'], row['network'], row['symbol']].map(String)
    const key = [
      ...[store!, month, network!, canonical(row, 'asset'), symbol!],
      Number(row['decimals']),
    ] as unknown as FeeSum['key']
    const name = JSON.stringify(key)
    let sum = rollups.get(name)
    if (sum === undefined) {
      const none = { sales: 0, sold: 0n, fees: 0n, refunds: 0, refunded: 0n, returned: 0n, standing: 0n }
      sum = { key, asset: String(row['asset']), ...none }
      rollups.set(name, sum)
    }
    return sum
  }
  const [amount, fee] = [BigInt(String(row['amount_atomic'])), BigInt(String(row['fee_atomic']))]
  if (sales !== 0 || standing !== 0) {
    const sum = sumOf(row['created_at_ms'])
    sum.sales += sales
    sum.sold += BigInt(sales) * amount
    sum.fees += BigInt(sales) * fee
    sum.standing += BigInt(standing) * amount
  }
  if (refunds !== 0 && row['refunded_at_ms'] !== null) {
    const sum = sumOf(row['refunded_at_ms'])
    sum.refunds += refunds
    sum.refunded += BigInt(refunds) * amount
    sum.returned += BigInt(refunds) * fee
  }
}
