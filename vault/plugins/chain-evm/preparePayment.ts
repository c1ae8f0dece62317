import { randomBytes } from 'node:crypto'
import { canonicalAddress } from '../../../core/domain/address.ts'
import { transferTypes } from '../../../core/x402/transferTypes.ts'
import { PaymentProblem, type PreparedPayment, type PreparePayment } from '../../effects/payment.ts'
import { decodeTypedData } from './decodeTypedData.ts'

/** Longest time a signed authorisation may be used, whatever the seller asks for, in seconds. */
const MAX_VALIDITY_SECONDS = 3_600
/** How far the seller's chain may be behind our clock, in seconds; what the reference client grants too. */
const CLOCK_SKEW_SECONDS = 600

/**
 * Builds the EIP-3009 authorisation of scheme `exact`: the token's pinned domain, a random nonce, an hour at most. It
 * needs no node.
 */
export async function preparePayment(request: PreparePayment): Promise<PreparedPayment> {
  const { chain, assets, terms, nowMs } = request
  const from = canonicalAddress('eip155', request.account)
  const to = canonicalAddress('eip155', terms.payTo.toLowerCase())
  const token = assets.byAddress(chain, terms.asset.address)
  if (from === undefined || to === undefined || token?.eip712 === undefined)
    throw new TypeError('Expected terms that were checked.')
  const nowSeconds = Math.floor(nowMs / 1_000)
  const validBefore = nowSeconds + Math.min(terms.maxTimeoutSeconds, MAX_VALIDITY_SECONDS)
  const authorization = {
    from,
    to,
    value: terms.amountAtomic.toString(),
    validAfter: String(nowSeconds - CLOCK_SKEW_SECONDS),
    validBefore: String(validBefore),
    nonce: `0x${randomBytes(32).toString('hex')}`,
  }
  const read = decodeTypedData({
    chain,
    account: from,
    assets,
    typedData: {
      domain: {
        ...token.eip712,
        chainId: Number(terms.asset.network.slice('eip155:'.length)),
        verifyingContract: token.address,
      },
      types: transferTypes,
      primaryType: 'TransferWithAuthorization',
      message: authorization,
    },
  })
  if (!read.ok) throw new PaymentProblem('VALIDATION_ERROR', `${read.message} Nothing was signed.`)
  return {
    decoded: Object.freeze({ ...read.decoded, kind: 'payment' as const }),
    validBeforeMs: validBefore * 1_000,
    payload: ({ signature }) => ({ signature, authorization }),
  }
}
