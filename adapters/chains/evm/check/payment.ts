import type { Asset } from '../../../../core/domain/asset.ts'
import { type NetworkId, networkOfV1Name } from '../../../../core/domain/network.ts'
import { evmPaymentKey, evmPaymentKeyPrefix, type PaymentIdentity } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/hex.ts'
import { permit2Address } from '../../../../core/evm/permit2.ts'
import type { Checked, Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { isByPermit2, type PaymentPayload, type PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseForNow } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { type Authorization, judgeTerms, readAuthorization, recoverSigner } from './authorization.ts'
import { judgePermit2Terms, readPermit2, strangePermit } from './permit2.ts'
import { Digests } from './signedPayment.ts'

/**
 * Maximum number of concurrent chain requests about signatures. Any client can send signatures that only a node or a facilitator
 * can check.
 */
const MAX_REQUESTS = 32

/**
 * Checks whether the payer is a contract that accepts the signature. It is used for signatures that the payer's own key did not
 * make.
 */
export type ContractSignatureCheck = (
  authorization: Authorization,
  digest: Uint8Array,
  payment: PaymentPayload,
  terms: PaymentRequirements,
) => Promise<Refusal | undefined>

export interface EvmCheckOptions {
  readonly network: NetworkId
  /** Tokens that payments may use. The check refuses an authorization by EIP-3009 of a token without an EIP-712 domain. */
  readonly assets: readonly Asset[]
  readonly clock: Clock
  /** The accounts that may settle payments by `upto`, in lower case. By default none. */
  readonly facilitators?: ReadonlySet<string>
  /** Called only if the payer's own key did not make the signature. If the option is absent, such a payment is refused. */
  readonly contractSignature?: ContractSignatureCheck
}

export type EvmCheck = (payment: PaymentPayload, terms: PaymentRequirements) => Checked | Promise<Checked>

/**
 * Creates the check of a payment's terms, form, times and signature. The check runs on every paid call before anything is stored. It
 * needs no chain request for a signature by the payer's own key. The terms decide whether the payment has to be an authorization of
 * EIP-3009 or a permit of Permit2.
 *
 * @see https://eips.ethereum.org/EIPS/eip-3009 and the x402 specification, schemes `exact` and `upto` on EVM
 */
export function createEvmCheck(options: EvmCheckOptions): EvmCheck {
  const { network, assets, clock, contractSignature, facilitators = noFacilitators } = options
  const tokens = tokensOf(network, assets)
  const digests = new Digests(network, assets)
  const permit2Prefix = evmPaymentKeyPrefix(network, permit2Address)
  let requests = 0

  return (payment, terms) => {
    const isUpto = terms.scheme === 'upto'
    if (payment.scheme !== terms.scheme || (terms.scheme !== 'exact' && !isUpto)) {
      return refuse(isUpto ? reasons.uptoScheme : reasons.scheme, `Expected the scheme "${terms.scheme}".`)
    }
    if (terms.network !== network || !isNetwork(payment, network)) {
      return refuse(isUpto ? reasons.uptoNetwork : reasons.network, `Expected a payment on ${network}.`)
    }
    const token = tokens.get(terms.asset.toLowerCase())
    const isPermit2 = isByPermit2(terms)
    const read = isPermit2 ? readPermit2(payment) : readAuthorization(payment.payload)
    if (!read.ok) return read
    const { authorization } = read
    const digest = token && digests.of(authorization, token.address)
    if (digest === undefined) {
      return refuse(reasons.domain, 'The link requires a token whose EIP-712 domain is not configured.')
    }
    const { permit2 } = authorization
    const strange = permit2 && strangePermit(permit2, terms)
    if (strange !== undefined) return strange
    const nowSeconds = Math.floor(clock.now() / 1000)
    const wrong = isPermit2
      ? judgePermit2Terms(terms, authorization, nowSeconds, facilitators)
      : judgeTerms(payment, terms, authorization, nowSeconds)
    const identity = identify(
      network,
      isPermit2 ? { ...token!, keyPrefix: permit2Prefix } : token!,
      authorization,
      terms,
    )
    // The signature is verified even if the terms are wrong, because the buyer may be repeating a request for an earlier purchase.
    const checked: Checked = wrong === undefined ? { ok: true, identity } : { ...wrong, identity }
    if (recoverSigner(digest, authorization.signature) === authorization.from) return checked
    if (contractSignature === undefined) return wrong ?? wrongSignature(authorization)
    if (requests >= MAX_REQUESTS) return tooManyRequests
    requests++
    return contractSignature(authorization, digest, payment, terms)
      .finally(() => requests--)
      .then((refusal) => (refusal === undefined ? checked : refusal.transient ? refusal : (wrong ?? refusal)))
  }
}

const noFacilitators: ReadonlySet<string> = new Set()

/** The refusal of an invalid signature. Its message names the usual cause. */
export const wrongSignature = ({ permit2 }: Authorization): Refusal =>
  permit2 === undefined
    ? refuse(
        reasons.signature,
        'Expected a signature by the payer over exactly these terms. Sign the EIP-712 domain in extra (name, version).',
      )
    : refuse(
        reasons.permit2Signature,
        'Expected a signature by the payer over exactly these terms. Sign the EIP-712 domain of Permit2 on this chain.',
      )

const tooManyRequests = refuseForNow(
  reasons.verifyFault,
  'Too many contract wallet signatures at once. Try again.',
)

interface Token {
  readonly address: string
  readonly keyPrefix: string
}

function tokensOf(network: NetworkId, assets: readonly Asset[]): ReadonlyMap<string, Token> {
  const tokens = new Map<string, Token>()
  for (const { network: own, address } of assets) {
    const key = address.toLowerCase()
    if (own === network) tokens.set(key, { address, keyPrefix: evmPaymentKeyPrefix(network, key) })
  }
  return tokens
}

function isNetwork(payment: PaymentPayload, network: NetworkId): boolean {
  if (payment.network === network) return true
  return payment.x402Version === 1 && networkOfV1Name(payment.network) === network
}

function identify(
  network: NetworkId,
  token: Token,
  authorization: Authorization,
  terms: PaymentRequirements,
): PaymentIdentity {
  return {
    key: evmPaymentKey(token.keyPrefix, authorization.from, authorization.nonce),
    network,
    asset: token.address,
    payer: checksumAddress(authorization.from),
    nonce: authorization.nonce,
    payTo: terms.payTo,
    amountAtomic: BigInt(authorization.value),
    validBeforeMs: validBeforeMsOf(authorization),
  }
}

/** Chain time from which the authorization can no longer be used, in ms since 1970. */
const validBeforeMsOf = ({ validBefore, permit2 }: Authorization): number =>
  (Number(validBefore) + (permit2 === undefined ? 0 : 1)) * 1000
