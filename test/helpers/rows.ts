import { createHash, randomUUID } from 'node:crypto'
import { type Asset, builtInAssets } from '../../core/domain/asset.ts'
import type {
  PaymentIdentity,
  PaymentRecord,
  PaymentState,
  StoredResponse,
} from '../../core/domain/payment.ts'
import { assetOf, purchaseOf, type Sale } from '../../core/payments/purchase.ts'
import { leaveChain, payBack } from '../../core/payments/reconciliation.ts'
import * as rules from '../../core/payments/rules.ts'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import { testAsset, testNetwork, testPayTo } from './settler.ts'

/** A payment that a test wants in the ledger; omitted fields have defaults. */
export interface WantedRow extends Partial<PaymentIdentity> {
  readonly state: PaymentState
  readonly linkId: string | null
  readonly sessionId?: string | null
  readonly storeId: string
  readonly purchaseId?: string
  readonly requestHash?: string
  /** As it was received, JSON. */
  readonly payload?: string
  readonly lease?: number
  readonly transaction?: string
  /** Kept with it where the state has one; null for none. */
  readonly response?: StoredResponse | null
  /** Why it failed or is owed. */
  readonly reason?: string
  readonly atMs?: number
  readonly reviewTokenHash?: string
  /** What is configured. Default: the built-in ones. */
  readonly assets?: readonly Asset[]
}

export const storedResponse: StoredResponse = {
  status: 200,
  headers: ['Content-Type', 'application/json'],
  body: Buffer.from('{"a":1}'),
}

/** Brings a payment to where a test wants it, by the rules that a real one moves by. */
export async function bring(ledger: Ledger, wanted: WantedRow): Promise<PaymentRecord> {
  const { state, response = storedResponse, reason = 'test' } = wanted
  const nonce = wanted.nonce ?? randomUUID()
  const payer = wanted.payer ?? '0x2222222222222222222222222222222222222222'
  const network = wanted.network ?? testNetwork
  const asset = wanted.asset ?? testAsset
  const key = wanted.key ?? createHash('sha256').update(`${network}|${asset}|${payer}|${nonce}`).digest('hex')
  const {
    linkId,
    sessionId = null,
    storeId,
    purchaseId = randomUUID(),
    lease = 1,
    atMs = Date.now(),
  } = wanted
  const amountAtomic = wanted.amountAtomic ?? 100_000n
  const claimed = await ledger.claim({
    key,
    network,
    asset,
    payer,
    nonce,
    amountAtomic,
    linkId,
    sessionId,
    storeId,
    purchaseId,
    lease,
    payTo: wanted.payTo ?? testPayTo,
    validBeforeMs: wanted.validBeforeMs ?? atMs + 300_000,
    scheme: 'exact',
    requestHash: wanted.requestHash ?? key,
    payload: wanted.payload ?? '{}',
  })
  if (!claimed.won) throw new Error('Expected an unclaimed payment.')
  const read = async () => (await ledger.find(key))!
  const apply = async (change: Parameters<Ledger['apply']>[0]) => {
    if (!(await ledger.apply(change))) throw new Error(`Expected to bring a payment to ${change.to}.`)
  }
  if (state === 'claimed') return read()
  if (state === 'rejected') {
    await apply(rules.free(await read(), reason))
    return read()
  }
  const transaction = wanted.transaction ?? `0x${key}`
  const attempt = { settler: 'scripted', bytes: '0x00', transaction, sequence: '0' }
  await apply(rules.begin(await read(), attempt, response))
  if (state === 'settling') return read()
  if (state === 'pending') await apply(rules.pend(await read(), reason))
  if (state === 'failed_final') await apply(rules.giveUp(await read(), reason))
  if (state === 'pending' || state === 'failed_final') return read()
  const sale: Sale = {
    payment: { key, network, asset, payer, amountAtomic, linkId, sessionId, storeId, purchaseId },
    landed: { transaction, event: '0', block: 1, chargedAtomic: amountAtomic },
    asset: assetOf(wanted.assets ?? builtInAssets, { network, asset }),
    reviewTokenHash: wanted.reviewTokenHash ?? key,
    atMs,
  }
  await apply(rules.sell(await read(), sale, attempt, false))
  const { purchase } = purchaseOf(sale)
  if (state === 'delivered') await apply(rules.deliver(await read()))
  if (state === 'refund_due') await apply(rules.owe(await read(), reason))
  if (state === 'reorged') await apply(leaveChain(await read(), purchase))
  if (state === 'refunded') {
    const back = { network, transaction: `0xback${nonce}`, paymentKeys: [] }
    await apply(payBack(await read(), purchase, back))
  }
  return read()
}
