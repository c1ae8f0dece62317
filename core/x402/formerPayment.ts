import { builtInAssets } from '../domain/asset.ts'
import { familyOf, knownNetworks, type NetworkId, networkOfV1Name } from '../domain/network.ts'
import {
  evmPaymentKey,
  evmPaymentKeyPrefix,
  type PaymentKey,
  type PaymentRecord,
  solanaPaymentKey,
} from '../domain/payment.ts'
import type { Payments, PresentedPayment } from '../payments/payments.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction } from '../solana/wire.ts'
import { decodeStrictBase64 } from './header.ts'
import { isObject, own } from './strictJson.ts'
import type { PaymentPayload } from './types.ts'

type Signed = Readonly<Record<string, unknown>>

/**
 * A payment that no settler accepts: this gateway no longer takes its network or asset, or the signature no longer passes its
 * check. The payment may have been claimed while it passed, and may have bought something. The ledger keeps what was signed,
 * and a caller with the same signature gets what that payment has bought, as with a signature that a settler would check.
 *
 * @param unclaimable what everybody else hears
 */
export async function formerPayment(
  payments: Pick<Payments, 'find'>,
  payload: PaymentPayload,
  unclaimable: Error,
): Promise<PresentedPayment | undefined> {
  for (const key of keysOf(payload)) {
    const record = await payments.find(key)
    if (record !== undefined && isSigned(payload.payload, record))
      return { payload, terms: termsOf(record), identity: record, settler: null, unclaimable }
  }
}

/** Under which keys it would stand in the books, by what it says of itself: nothing of that is proved. */
function keysOf({ x402Version, network: named, accepted, payload }: PaymentPayload): PaymentKey[] {
  const network = (x402Version === 1 && networkOfV1Name(named)) || (named as NetworkId)
  switch (familyOf(network)) {
    case 'solana': {
      const message = messageOf(payload)
      return message === undefined ? [] : [solanaPaymentKey(network, message)]
    }
    case 'eip155': {
      const authorization = own(payload, 'authorization')
      if (!isObject(authorization)) return []
      const [payer, nonce] = [textOf(authorization, 'from'), textOf(authorization, 'nonce')]
      if (payer === undefined || nonce === undefined) return []
      // Version 1 does not say which asset.
      const said = accepted && textOf(accepted, 'asset')
      const assets =
        said === undefined ? builtInAssets.filter((a) => a.network === network) : [{ address: said }]
      return assets.map(({ address }) =>
        evmPaymentKey(evmPaymentKeyPrefix(network, address), payer.toLowerCase(), nonce.toLowerCase()),
      )
    }
    default:
      return []
  }
}

/** A Solana transaction without an envelope, as a payment of each network that it may be of. */
export const barePayments = (transaction: string): PaymentPayload[] =>
  knownNetworks
    .filter(({ id }) => familyOf(id) === 'solana')
    .map(({ id }) => ({ x402Version: 1, scheme: 'exact', network: id, payload: { transaction } }))

/** The same key is the same authorisation, or message; that its signature is the same is left to see. */
function isSigned(payload: Signed, record: PaymentRecord): boolean {
  const kept: unknown = JSON.parse(record.payload)
  const known = isObject(kept) ? own(kept, 'payload') : undefined
  if (!isObject(known)) return false
  return ['signature', 'transaction'].some((field) => {
    const text = textOf(payload, field)
    return text !== undefined && text === textOf(known, field)
  })
}

const termsOf = ({ scheme, network, asset, payTo, amountAtomic }: PaymentRecord) => ({
  ...{ scheme, network, asset, payTo, amount: amountAtomic.toString() },
  ...{ maxTimeoutSeconds: 0, extra: {} },
})

function messageOf(payload: Signed): Uint8Array | undefined {
  const encoded = textOf(payload, 'transaction')
  const bytes = encoded === undefined ? undefined : decodeStrictBase64(encoded, MAX_TRANSACTION_BYTES)
  return bytes === undefined ? undefined : readWireTransaction(bytes)?.message
}

function textOf(object: Signed, name: string): string | undefined {
  const value = own(object, name)
  return typeof value === 'string' ? value : undefined
}
