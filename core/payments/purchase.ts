import { hash, randomUUID } from 'node:crypto'
import type { Asset } from '../domain/asset.ts'
import { debtorOf, entriesOfSale, type LedgerEntry } from '../domain/ledger.ts'
import { feeOf, formatAmount } from '../domain/money.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { PurchaseNote } from '../plugin/exchange.ts'
import type { Sealer } from '../ports/sealer.ts'
import type { PaymentChange } from '../ports/store/books.ts'

/** What landed on chain. */
export type Landed = NonNullable<PaymentChange['settled']>

/** What makes a purchase of what landed: a call has it from its exchange, the recovery from the stored payment. */
export interface Sale {
  /** As it was claimed. */
  readonly payment: Pick<
    PaymentRecord,
    'key' | 'network' | 'asset' | 'payer' | 'linkId' | 'sessionId' | 'storeId' | 'purchaseId'
  >
  readonly landed: Landed
  readonly asset: Asset
  /** SHA-256, hex, of the purchase's review token. */
  readonly reviewTokenHash: string
  readonly atMs: number
}

/** The purchase of a settled payment, and the ledger entries that belong in the same commit. */
export function purchaseOf({ payment, landed, asset, reviewTokenHash, atMs }: Sale): {
  readonly purchase: Purchase
  readonly entries: readonly LedgerEntry[]
} {
  const { chargedAtomic } = landed
  const purchase: Purchase = {
    id: payment.purchaseId,
    paymentKey: payment.key,
    linkId: payment.linkId,
    sessionId: payment.sessionId,
    storeId: payment.storeId,
    buyerWallet: payment.payer,
    network: payment.network,
    asset: payment.asset,
    symbol: asset.symbol,
    decimals: asset.decimals,
    amountAtomic: chargedAtomic,
    feeAtomic: debtorOf(payment.storeId) === undefined ? feeOf(chargedAtomic, asset.feeBps) : 0n,
    priceUsd: usdOf(chargedAtomic, asset),
    txHash: landed.transaction,
    status: 'settled',
    reviewTokenHash,
    createdAtMs: atMs,
  }
  return { purchase, entries: entriesOfSale(purchase) }
}

/** What was paid, in USDC at the asset's configured rate, cut to 18 decimals: what revenue adds up. */
function usdOf(amountAtomic: bigint, asset: Asset): string {
  const [whole = '0', fraction = ''] = asset.usdPerUnit.split('.')
  const places = asset.decimals + fraction.length
  const scaled = amountAtomic * BigInt(whole + fraction)
  return places > 18 ? formatAmount(scaled / 10n ** BigInt(places - 18), 18) : formatAmount(scaled, places)
}

/**
 * The configured asset that a payment was made in.
 * @throws when it is not configured any more: nobody knows its decimals and fee then
 */
export function assetOf(
  assets: readonly Asset[],
  { network, asset }: Pick<PaymentRecord, 'network' | 'asset'>,
): Asset {
  const found =
    assets.find((one) => one.network === network && one.address === asset) ??
    assets.find((one) => one.network === network && isSameAddress(one.address, asset))
  if (found !== undefined) return found
  throw new Error(`asset ${asset} of a payment on ${network} is not configured any more`)
}

const isSameAddress = (a: string, b: string) => a.startsWith('0x') && a.toLowerCase() === b.toLowerCase()

/**
 * A UUID of version 7 (RFC 9562, section 5.7): 48 bits of time in ms, then 74 random ones. Ids that grow with time stand
 * side by side in the store's indexes, where random ones would touch a page each (bench/durableSteps.ts).
 */
export function newPurchaseId(nowMs: number): string {
  const time = nowMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** Makes what is added to a paid answer. The same purchase always gets the same note, so a repeated answer is the same. */
export interface PurchaseNotes {
  of(purchaseId: string, wrapped: boolean): PurchaseNote
  /** SHA-256, hex, of the purchase's review token: what is stored. */
  tokenHash(purchaseId: string): string
}

/**
 * The review token is 32 bytes of HMAC over the purchase id under the server's secret: as hard to guess as random ones,
 * and it need not be kept anywhere to be said again.
 *
 * @param metadataField name of the field beside `data`: `_svc`
 */
export function createPurchaseNotes(sealer: Pick<Sealer, 'mac'>, metadataField: string): PurchaseNotes {
  const prefix = Buffer.from('{"data":')
  const opening = `,${JSON.stringify(metadataField)}:{"purchaseId":"`
  const tokenOf = (purchaseId: string) => {
    // A purchase is asked for twice in a row, for its hash and for its note; one HMAC does (bench/paid.ts).
    if (last.purchaseId !== purchaseId || last.sealer !== sealer) {
      last = { purchaseId, sealer, token: sealer.mac('review-token', purchaseId).toString('base64url') }
    }
    return last.token
  }
  return {
    of(purchaseId, wrapped) {
      const reviewToken = tokenOf(purchaseId)
      const suffix = wrapped
        ? Buffer.from(`${opening}${purchaseId}","reviewToken":"${reviewToken}"}}`, 'latin1')
        : null
      return {
        id: purchaseId,
        reviewToken,
        wrap: suffix === null ? null : { prefix, suffix },
        headers: ['X-Purchase-Id', purchaseId, 'X-Review-Token', reviewToken],
      }
    },
    tokenHash: (purchaseId) => hash('sha256', tokenOf(purchaseId), 'hex'),
  }
}

/** The engine asks for the hash, a plugin for the note: they share the token. */
let last: { purchaseId: string; sealer: Pick<Sealer, 'mac'> | null; token: string } = {
  ...{ purchaseId: '', sealer: null, token: '' },
}
