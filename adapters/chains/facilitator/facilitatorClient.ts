import { isSameAddress } from '../../../core/domain/address.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import { type Egress, type EgressErrorCode, egressFailures } from '../../../core/ports/egress.ts'
import { gasSponsoringName } from '../../../core/x402/gasSponsoring.ts'
import { isObject } from '../../../core/x402/strictJson.ts'
import type { PaymentPayload, PaymentRequirements, Scheme } from '../../../core/x402/types.ts'

/** Longest response that is read, in bytes. Usual responses take a few hundred bytes. */
const MAX_ANSWER_BYTES = 65_536

interface FacilitatorClientOptions {
  /** Base URL. The routes are appended to its path. */
  readonly url: string
  /** Sent with every request, such as `authorization`. */
  readonly headers: Readonly<Record<string, string>>
  readonly egress: Egress
}

/** The facilitator's response, or why there is no response. */
type FacilitatorResponse =
  | {
      readonly arrived: 'answered'
      readonly status: number
      readonly body: Readonly<Record<string, unknown>>
    }
  /** The request certainly did not reach the facilitator. */
  | { readonly arrived: 'no'; readonly message: string }
  /** The request may have reached the facilitator, but there was no response, or the response is incomplete or cannot be read. */
  | { readonly arrived: 'unknown'; readonly message: string }

/** The three routes of an x402 facilitator. Never rejects. */
interface FacilitatorClient {
  get(route: 'supported', timeoutMs: number): Promise<FacilitatorResponse>
  post(route: 'verify' | 'settle', body: object, timeoutMs: number): Promise<FacilitatorResponse>
}

export function createFacilitatorClient(options: FacilitatorClientOptions): FacilitatorClient {
  const { headers, egress } = options
  const base = options.url.replace(/\/+$/, '')

  const post = async (
    method: string,
    route: string,
    timeoutMs: number,
    body?: string,
  ): Promise<FacilitatorResponse> => {
    try {
      const response = await egress.request({
        url: `${base}/${route}`,
        method,
        headers: {
          accept: 'application/json',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        timeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
      })
      const parsed: unknown = JSON.parse(Buffer.from(response.body).toString('utf8'))
      if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
        return { arrived: 'unknown', message: `HTTP ${response.status} without a JSON object` }
      }
      return { arrived: 'answered', status: response.status, body: parsed as Record<string, unknown> }
    } catch (error) {
      const { code, isUnsent } = (error ?? {}) as { code?: unknown; isUnsent?: unknown }
      const message = typeof code === 'string' ? inWords(code) : 'a response that is not JSON'
      const isSurelyUnsent = isUnsent === true || neverSent.has(code as EgressErrorCode)
      return { arrived: isSurelyUnsent ? 'no' : 'unknown', message }
    }
  }
  return {
    get: (route, timeoutMs) => post('GET', route, timeoutMs),
    post: (route, body, timeoutMs) => post('POST', route, timeoutMs, JSON.stringify(body)),
  }
}

/** Failures before the first byte of a request was sent. Other errors carry the information whether the request was sent. */
const neverSent: ReadonlySet<EgressErrorCode> = new Set([
  'EGRESS_REFUSED',
  'EGRESS_UNREACHABLE',
  'EGRESS_UNTRUSTED',
  'EGRESS_BAD_REQUEST',
])

/** Describes a failure as a part of a sentence. */
function inWords(code: string): string {
  if (!Object.hasOwn(egressFailures, code)) return code
  const words = egressFailures[code as EgressErrorCode]
  return words[0]!.toLowerCase() + words.slice(1).replace(/\.$/, '')
}

/**
 * The body of /verify and /settle (x402 v2, section "facilitator interface"). The inner payload is the same in versions 1 and 2, so
 * the gateway sends both as version 2. The terms are the link's own and not the client's copy. The buyer's permit for Permit2 goes
 * along.
 *
 * @param mostAtomic the amount that the payer has authorized, if the terms have the lower amount to charge (scheme `upto`)
 */
export const facilitatorBody = (
  payment: PaymentPayload,
  terms: PaymentRequirements,
  mostAtomic = terms.amount,
): object => ({
  x402Version: 2,
  paymentPayload: {
    x402Version: 2,
    payload: payment.payload,
    accepted: { ...terms, amount: mostAtomic },
    ...(payment.allowancePermit && {
      extensions: { [gasSponsoringName]: { info: payment.allowancePermit } },
    }),
  },
  paymentRequirements: terms,
})

/** Whether a facilitator settles `exact` payments of x402 v2 on a network, and the fields that offers must contain for it. */
type SupportedKind =
  | {
      readonly ok: true
      readonly extra: Readonly<Record<string, unknown>>
      /** The fields of offers by `upto`. Undefined if the facilitator does not settle that scheme on the network. */
      readonly uptoExtra: Readonly<Record<string, unknown>> | undefined
      /** Whether the facilitator sends a buyer's permit for Permit2 together with the payment. */
      readonly sponsorsAllowance: boolean
    }
  /**
   * `isResponse` is true if the facilitator responded that it does not support the network. It is false if the facilitator was
   * unreachable.
   */
  | { readonly ok: false; readonly isResponse: boolean; readonly message: string }

export async function requestSupported(
  client: FacilitatorClient,
  network: NetworkId,
  timeoutMs: number,
): Promise<SupportedKind> {
  const response = await client.get('supported', timeoutMs)
  if (response.arrived !== 'answered') return { ok: false, isResponse: false, message: response.message }
  const kinds = response.body['kinds']
  if (response.status !== 200 || !Array.isArray(kinds)) {
    return { ok: false, isResponse: false, message: `HTTP ${response.status} without a list of kinds` }
  }
  const extraOf = (scheme: Scheme): Readonly<Record<string, unknown>> | undefined => {
    const kind = kinds.find(
      (one): one is { extra?: unknown } =>
        typeof one === 'object' &&
        one !== null &&
        one.x402Version === 2 &&
        one.scheme === scheme &&
        (one.network === network || one.network === `${network.split(':')[0]}:*`),
    )
    if (kind === undefined) return undefined
    return isObject(kind.extra) ? kind.extra : {}
  }
  const extra = extraOf('exact')
  if (extra === undefined) {
    return { ok: false, isResponse: true, message: `it does not settle "exact" of x402 v2 on ${network}` }
  }
  const extensions = response.body['extensions']
  const sponsorsAllowance = Array.isArray(extensions) && extensions.includes(gasSponsoringName)
  return { ok: true, extra, uptoExtra: extraOf('upto'), sponsorsAllowance }
}

/** The meaning of a facilitator's response to /settle. */
type SettleClaim =
  /** The facilitator says that this transaction settled the payment. */
  | { readonly says: 'settled'; readonly transaction: string }
  /** The facilitator says that it refused the payment and did nothing. */
  | { readonly says: 'refused'; readonly reason: string; readonly message: string }
  /** The request was never sent. */
  | { readonly says: 'not_sent'; readonly message: string }
  /** The outcome is unknown. `transaction` is the facilitator's hint, or empty. */
  | { readonly says: 'unclear'; readonly transaction: string; readonly message: string }

const transactionForms = { eip155: /^0x[0-9a-fA-F]{64}$/, solana: /^[1-9A-HJ-NP-Za-km-z]{64,90}$/ }
const reasonForm = /^[a-z0-9_]{1,100}$/

/**
 * Refusals because of the payment's form, terms or signature, which never change. After such a refusal a trusted facilitator has
 * sent nothing. After every other failure the outcome is unknown. A used nonce, missing funds, a failed simulation or wrong times
 * may mean that the payment was just settled, because a proxy may send a request twice and return only the second response.
 */
const refusedBefore =
  /^(invalid_(scheme|network|payload|payment|payment_requirements|x402_version|exact_(evm|svm)_\w+|upto_evm_\w+|permit2_\w+)|unsupported_\w+|upto_facilitator_mismatch|permit2_(amount|token)_mismatch|eip6492_factory_not_allowed|asset_not_deployed_contract)$/
const mayHaveSent =
  /nonce|already|insufficient|simulation|duplicate|valid_before|expired|verification|settle|transaction_(failed|confirmation)|transfer_event/

/** Reads a response to /settle. A response of another form counts as unclear. */
export function readSettleResponse(response: FacilitatorResponse, identity: PaymentIdentity): SettleClaim {
  if (response.arrived === 'no') return { says: 'not_sent', message: response.message }
  if (response.arrived === 'unknown') return { says: 'unclear', transaction: '', message: response.message }
  const { status, body } = response
  const field = (name: string) => (Object.hasOwn(body, name) ? body[name] : undefined)
  const family = identity.network.startsWith('solana:') ? 'solana' : 'eip155'
  const named = field('transaction')
  const transaction = typeof named === 'string' && transactionForms[family].test(named) ? named : ''
  const unclear = (message: string): SettleClaim => ({ says: 'unclear', transaction, message })

  if (status >= 500) return unclear(`HTTP ${status}`)
  if (field('success') === true) {
    if (status >= 300) return unclear(`success with HTTP ${status}`)
    if (transaction === '') return unclear('success without a transaction')
    if (field('network') !== identity.network) return unclear('success on another network')
    const payer = field('payer')
    if (payer !== undefined && !isSameAddress(family, payer, identity.payer))
      return unclear('success for another payer')
    return { says: 'settled', transaction }
  }
  const reason = field('errorReason')
  if (field('success') !== false || typeof reason !== 'string' || !reasonForm.test(reason)) {
    return unclear(`a response of HTTP ${status} that is neither success nor failure`)
  }
  const didNothing = named === undefined || named === null || named === ''
  if (!didNothing || !refusedBefore.test(reason) || mayHaveSent.test(reason)) return unclear(reason)
  return { says: 'refused', reason, message: `The facilitator refused the payment: ${reason}.` }
}
