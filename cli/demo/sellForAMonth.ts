import { hash, randomUUID } from 'node:crypto'
import { builtInAssets } from '../../core/domain/asset.ts'
import { parseAmount } from '../../core/domain/money.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { newPurchaseId, type Sale } from '../../core/payments/purchase.ts'
import * as rules from '../../core/payments/rules.ts'
import { DAY_MS } from '../../core/ports/store/stats.ts'
import type { Stack } from '../runtime/open/openStack.ts'
import type { SampleLink } from './sampleStores.ts'

export interface MonthOfLink {
  readonly storeId: string
  readonly linkId: string
  readonly link: Pick<SampleLink, 'price' | 'dailyCalls' | 'reviews'>
  readonly network: NetworkId
  readonly payTo: string
  readonly nowMs: number
  /** Whether one buyer was charged and got no response, so that the seller has to refund the buyer. */
  readonly hasRefundDue: boolean
}

export type SellingStack = Pick<Stack, 'store' | 'lease'>

const DAYS = 30
const HOUR_MS = DAY_MS / 24
const PROBES_A_DAY = 8

/**
 * Gives a link a month of data: traffic, health checks with one bad day, sales to several dozen wallets, and reviews. The same
 * rules as for real sales record these sales. They are on no chain, so none is marked for a check on its chain.
 */
export async function sellForAMonth(stack: SellingStack, month: MonthOfLink): Promise<void> {
  const { store } = stack
  const { linkId, link, nowMs } = month
  const salesAt: number[] = []
  const badDay = 3 + Math.floor(Math.random() * 20)
  for (let day = 0; day < DAYS; day++) {
    // Weekends are quieter, and sales grow over time.
    const share = (day % 7 < 2 ? 0.55 : 1) * (1 - day / 60)
    const calls = Math.round(link.dailyCalls * share * (0.85 + Math.random() * 0.3))
    const atMs = nowMs - day * DAY_MS
    await store.stats.addTraffic([
      {
        linkId,
        hour: Math.floor(atMs / HOUR_MS) - 1,
        views: calls * 3,
        challenges: Math.round(calls * 1.6),
        calls,
        failedCalls: 0,
      },
    ])
    for (let probe = 0; probe < PROBES_A_DAY; probe++) {
      const ok = !(day === badDay && probe < 1 + (badDay % 3))
      await store.links.addHealthEvent({
        linkId,
        atMs: atMs - probe * 2 * HOUR_MS - 60_000,
        kind: 'probe',
        ok,
        status: ok ? 200 : 502,
        latencyMs: 40 + Math.round(Math.random() * 60),
        detail: ok ? '' : 'The API responded with 502 Bad Gateway.',
      })
    }
    const sales = Number(link.price) === 0 ? 0 : calls
    for (let i = 0; i < sales; i++) salesAt.push(atMs - Math.floor(Math.random() * 0.9 * DAY_MS) - 120_000)
  }
  const sold = await Promise.all(salesAt.map((atMs, i) => claimSale(stack, month, atMs, i)))
  await bookSales(stack, month, sold)
  for (const [i, { isPositive, comment }] of link.reviews.entries()) {
    const { purchaseId, wallet, atMs } = sold[i * 3]!
    await store.reviews.add({
      id: randomUUID(),
      purchaseId,
      linkId,
      storeId: month.storeId,
      wallet,
      isPositive,
      comment,
      createdAtMs: Math.min(nowMs - HOUR_MS, atMs + HOUR_MS),
    })
  }
}

interface ClaimedSale {
  readonly key: string
  readonly purchaseId: string
  readonly wallet: string
  readonly atMs: number
}

async function claimSale(
  { store, lease }: SellingStack,
  month: MonthOfLink,
  atMs: number,
  i: number,
): Promise<ClaimedSale> {
  const { storeId, linkId, link, network, payTo } = month
  const key = hash('sha256', randomUUID())
  const purchaseId = newPurchaseId(atMs)
  // Some buyers return.
  const wallet = `0x${hash('sha256', `${storeId} ${i % 23}`).slice(0, 40)}`
  await store.ledger.claim({
    key,
    network,
    asset: assetOn(network).address,
    payer: wallet,
    nonce: key,
    linkId,
    sessionId: null,
    storeId,
    purchaseId,
    lease: lease.current.id,
    payTo,
    validBeforeMs: atMs + 300_000,
    scheme: 'exact',
    amountAtomic: parseAmount(link.price, 6),
    requestHash: key,
    payload: '{}',
  })
  return { key, purchaseId, wallet, atMs }
}

/** Runs each step for all sales in one commit. */
async function bookSales(
  { store }: SellingStack,
  month: MonthOfLink,
  sold: readonly ClaimedSale[],
): Promise<void> {
  const { ledger } = store
  const read = () => Promise.all(sold.map(async ({ key }) => (await ledger.find(key))!))
  const attemptOf = (key: string) => ({
    settler: 'demo',
    bytes: '0x00',
    transaction: `0x${key}`,
    sequence: '0',
  })
  const answer = { status: 200, headers: ['Content-Type', 'application/json'], body: Buffer.from('{}') }
  await ledger.applyAll((await read()).map((record) => rules.begin(record, attemptOf(record.key), answer)))
  const sales = (await read()).map((record, i) => {
    const sale: Sale = {
      payment: record,
      landed: { transaction: `0x${record.key}`, event: '0', block: 1, chargedAtomic: record.amountAtomic },
      asset: assetOn(month.network),
      reviewTokenHash: record.key,
      atMs: sold[i]!.atMs,
    }
    return rules.sell(record, sale, attemptOf(record.key), false)
  })
  await ledger.applyAll(sales)
  const delivered = (await read()).map((record, i) => {
    const isOwed = month.hasRefundDue && i === sold.length >> 3
    const end = isOwed
      ? rules.owe(record, 'The API responded with 502 after the payment.')
      : rules.deliver(record)
    return { ...end, dueInMs: null }
  })
  await ledger.applyAll(delivered)
}

const assetOn = (network: NetworkId) => builtInAssets.find((asset) => asset.network === network)!
