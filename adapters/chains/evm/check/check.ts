import type { Asset } from '../../../../core/domain/asset.ts'
import { type NetworkId, networkOfV1Name } from '../../../../core/domain/network.ts'
import { evmPaymentKey, evmPaymentKeyPrefix, type PaymentIdentity } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/address.ts'
import type { Checked, Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseForNow } from '../../refuse.ts'
import { reasons } from '../reasons.ts'
import { type Authorization, authorizationDigest, readAuthorization } from './authorization.ts'
import { separatorsOf } from './plainSignature.ts'
import { recoverSigner } from './recoverSigner.ts'

/** Less than this is not enough to settle in; the reference verifier draws the same line. */
const MIN_LEAD_SECONDS = 6
/** Questions about signatures at once, because anybody can send those that only a node, or a facilitator, can judge. */
const MAX_QUESTIONS = 32
/** A buyer's clock may be this wrong; clients allow as much on the other side, by validAfter = now − 600. */
export const CLOCK_SLACK_SECONDS = 600

/** Answers for a signature that is no plain account's: whether the payer is a contract that takes it. */
export type ContractSignatureCheck = (
  authorization: Authorization,
  digest: Uint8Array,
  payment: PaymentPayload,
  terms: PaymentRequirements,
) => Promise<Refusal | undefined>

export interface EvmCheckOptions {
  readonly network: NetworkId
  /** Tokens that may be paid in; those without an EIP-712 domain are refused. */
  readonly assets: readonly Asset[]
  readonly clock: Clock
  /** Asked only when the signature is not the payer's own; without it such a payment is refused. */
  readonly contractSignature?: ContractSignatureCheck
}

export type EvmCheck = (payment: PaymentPayload, terms: PaymentRequirements) => Checked | Promise<Checked>

/**
 * Makes the check of an EIP-3009 payment that needs no chain: terms, form, times, signature. It runs on every paid
 * call, before anything is stored; an account's own signature is checked in process and answered at once.
 *
 * @see https://eips.ethereum.org/EIPS/eip-3009 and the x402 specification, scheme `exact` on EVM
 */
export function createEvmCheck(options: EvmCheckOptions): EvmCheck {
  const { network, clock, contractSignature } = options
  const tokens = tokensOf(network, options.assets)
  let questions = 0

  return (payment, terms) => {
    if (payment.scheme !== 'exact' || terms.scheme !== 'exact') {
      return refuse(reasons.scheme, 'Expected the scheme "exact".')
    }
    if (terms.network !== network || !isNetwork(payment, network)) {
      return refuse(reasons.network, `Expected a payment on ${network}.`)
    }
    const token = tokens.get(terms.asset.toLowerCase())
    if (token === undefined) {
      return refuse(reasons.domain, 'The link asks for a token whose EIP-712 domain is not configured.')
    }
    const read = readAuthorization(payment.payload)
    if (!read.ok) return read
    const { authorization } = read
    const nowSeconds = Math.floor(clock.now() / 1000)
    const wrong = judgeTerms(payment, terms, authorization, nowSeconds)
    const digest = authorizationDigest(token.separator, authorization)
    const identity = identify(network, token, authorization, terms)
    // Its signature is judged all the same: the buyer may be back for what it bought.
    const checked: Checked = wrong === undefined ? { ok: true, identity } : { ...wrong, identity }
    if (recoverSigner(digest, authorization.signature) === authorization.from) return checked
    if (contractSignature === undefined) return wrong ?? refuse(reasons.signature, wrongSignature)
    if (questions >= MAX_QUESTIONS) return tooManyQuestions
    questions++
    return contractSignature(authorization, digest, payment, terms)
      .finally(() => questions--)
      .then((refusal) => (refusal === undefined ? checked : refusal.transient ? refusal : (wrong ?? refusal)))
  }
}

/** Words for a signature that proves nothing; they name the usual cause. */
export const wrongSignature =
  'The signature is not one of the payer over exactly these terms. Sign the EIP-712 domain in extra (name, version).'

const tooManyQuestions = refuseForNow(
  reasons.verifyFault,
  'Too many contract wallet signatures at once. Try again.',
)

const tooLate = `Expected validBefore to be at least ${MIN_LEAD_SECONDS} seconds ahead.`

interface Token {
  readonly address: string
  readonly separator: Uint8Array
  readonly keyPrefix: string
}

function tokensOf(network: NetworkId, assets: readonly Asset[]): ReadonlyMap<string, Token> {
  const separators = separatorsOf(network, assets)
  const tokens = new Map<string, Token>()
  for (const { network: own, address } of assets) {
    const key = address.toLowerCase()
    const separator = separators.get(key)
    if (own !== network || separator === undefined) continue
    tokens.set(key, { address, separator, keyPrefix: evmPaymentKeyPrefix(network, key) })
  }
  return tokens
}

function isNetwork(payment: PaymentPayload, network: NetworkId): boolean {
  if (payment.network === network) return true
  return payment.x402Version === 1 && networkOfV1Name(payment.network) === network
}

function judgeTerms(
  payment: PaymentPayload,
  terms: PaymentRequirements,
  authorization: Authorization,
  nowSeconds: number,
): Refusal | undefined {
  if (authorization.to !== terms.payTo.toLowerCase()) {
    return refuse(reasons.recipient, `Expected a transfer to ${terms.payTo}.`)
  }
  // Both are canonical decimals, so equal text is equal value.
  if (authorization.value !== terms.amount) {
    const reason = payment.x402Version === 1 ? reasons.valueV1 : reasons.value
    return refuse(reason, `Expected a value of exactly ${terms.amount}.`)
  }
  const validBefore = Number(authorization.validBefore)
  if (validBefore < nowSeconds + MIN_LEAD_SECONDS) return refuse(reasons.validBefore, tooLate)
  if (validBefore > nowSeconds + terms.maxTimeoutSeconds + CLOCK_SLACK_SECONDS) {
    return refuse(reasons.validBefore, `Expected validBefore within ${terms.maxTimeoutSeconds} seconds.`)
  }
  // The token demands block time > validAfter, so a validAfter of this very second is not past yet.
  if (Number(authorization.validAfter) >= nowSeconds) {
    return refuse(reasons.validAfter, 'Expected validAfter to be in the past.')
  }
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
    validBeforeMs: Number(authorization.validBefore) * 1000,
  }
}
