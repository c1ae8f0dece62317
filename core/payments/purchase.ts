import { hash, randomUUID } from 'node:crypto'
import type { Asset } from '../domain/asset.ts'
import { debtorOf, entriesOfSale, type LedgerEntry } from '../domain/ledger.ts'
import { feeOf, formatAmount } from '../domain/money.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { Sealer } from '../ports/sealer.ts'
import type { PaymentChange } from '../ports/store/ledger.ts'

/** The facts of a transfer that landed on chain. */
export type Landed = NonNullable<PaymentChange['settled']>

/**
 * The parts of a purchase of a landed transfer. A call has them in its exchange, and recovery reads them from the stored payment.
 */
export interface Sale {
  /** The payment as it was claimed. */
  readonly payment: Pick<
    PaymentRecord,
    'key' | 'network' | 'asset' | 'payer' | 'amountAtomic' | 'linkId' | 'sessionId' | 'storeId' | 'purchaseId'
  >
  readonly landed: Landed
  readonly asset: Asset
  /** SHA-256 in hex of the purchase's review token. */
  readonly reviewTokenHash: string
  readonly atMs: number
}

/** Makes the purchase of a settled payment, and the ledger entries that belong to the same commit. */
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
    authorizedAtomic: payment.amountAtomic,
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

/** The paid amount in USD at the asset's configured rate, truncated to 18 decimals. Revenue is the sum of these amounts. */
function usdOf(amountAtomic: bigint, asset: Asset): string {
  const [whole = '0', fraction = ''] = asset.usdPerUnit.split('.')
  const places = asset.decimals + fraction.length
  const scaled = amountAtomic * BigInt(whole + fraction)
  return places > 18 ? formatAmount(scaled / 10n ** BigInt(places - 18), 18) : formatAmount(scaled, places)
}

/**
 * The configured asset in which a payment was made.
 *
 * @throws if the asset is no longer configured, because its decimals and fee are then unknown
 */
export function assetOf(
  assets: readonly Asset[],
  { network, asset }: Pick<PaymentRecord, 'network' | 'asset'>,
): Asset {
  const found =
    assets.find((one) => one.network === network && one.address === asset) ??
    assets.find((one) => one.network === network && isSameAddress(one.address, asset))
  if (found !== undefined) return found
  throw new Error(`asset ${asset} of a payment on ${network} is no longer configured`)
}

const isSameAddress = (a: string, b: string) => a.startsWith('0x') && a.toLowerCase() === b.toLowerCase()

/**
 * A UUID of version 7 (RFC 9562, section 5.7), with 48 bits of time in ms and 74 random bits. Ids that grow with time are adjacent
 * in the database's indexes, whereas each random id would touch another page (bench/durableSteps.ts).
 */
export function newPurchaseId(nowMs: number): string {
  const time = nowMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/**
 * Time of a purchase in seconds since 1970, from the time in its id. Receipts have this time, because it is known before the
 * purchase is recorded and never changes.
 */
export const issuedAtOf = (purchaseId: string): number =>
  Math.floor(Number.parseInt(purchaseId.slice(0, 8) + purchaseId.slice(9, 13), 16) / 1_000)

/**
 * The parts that the gateway adds to a paid response. If the link charges first, the note exists before the response, so that the
 * gateway can wrap a stream.
 */
export interface PurchaseNote {
  readonly id: string
  readonly reviewToken: string
  /** `{"data":` and `,"_svc":{…}}` as bytes. Null if the link's responses are not wrapped. */
  readonly wrap: { readonly prefix: Uint8Array; readonly suffix: Uint8Array } | null
  /** `X-Purchase-Id` and `X-Review-Token`, names and values in turn. */
  readonly headers: readonly string[]
}

/** Makes the notes for paid responses. A purchase always gets the same note, so that repeated responses are identical. */
export interface PurchaseNotes {
  of(purchaseId: string, wrapped: boolean): PurchaseNote
  /** SHA-256 in hex of the purchase's review token. The database stores only this hash. */
  tokenHash(purchaseId: string): string
}

/**
 * Makes purchase notes. The review token is a 32-byte HMAC over the purchase id with the server's secret. It is as hard to guess as
 * random bytes, and can be made again without being stored.
 *
 * @param metadataField name of the field beside `data`, such as `_svc`
 */
export function createPurchaseNotes(sealer: Pick<Sealer, 'mac'>, metadataField: string): PurchaseNotes {
  const prefix = Buffer.from('{"data":')
  const opening = `,${JSON.stringify(metadataField)}:{"purchaseId":"`
  const tokenOf = (purchaseId: string) => {
    // A purchase needs its token twice in a row, for the hash and for the note, so the last token is kept (bench/paid.ts).
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

/** The last token. It is outside the function, because the engine's hash and the plugin's note share it. */
let last: { purchaseId: string; sealer: Pick<Sealer, 'mac'> | null; token: string } = {
  purchaseId: '',
  sealer: null,
  token: '',
}
