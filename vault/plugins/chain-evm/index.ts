import { randomBytes } from 'node:crypto'
import { fromBytes, toBytes } from 'ox/Rlp'
import { canonicalAddress } from '../../../core/domain/address.ts'
import { isPrintable } from '../../../core/text/visibleText.ts'
import { evmTermsFault } from '../../../core/x402/evmTermsFault.ts'
import { permit2Payment } from '../../../core/x402/permit2Payment.ts'
import { transferTypes } from '../../../core/x402/types.ts'
import { chainPlugin, type MessageRequest, messageBytes } from '../../effects/chainPlugin.ts'
import type { Decoded, DecodeResult, Effect } from '../../effects/effect.ts'
import { PaymentProblem, type PreparedPayment, type PreparePayment } from '../../effects/payment.ts'
import { finish } from '../../effects/plainWords.ts'
import { assemble } from './assemble.ts'
import { finalBlock, proveCharges } from './charges.ts'
import { decodeTransaction } from './decodeTransaction.ts'
import { decodeTypedData } from './decodeTypedData.ts'
import { readTransaction } from './transaction.ts'

/** Maximum validity of a signed authorization, in seconds, regardless of the seller's offer. */
const MAX_VALIDITY_SECONDS = 3_600
/** How far the seller's chain may be behind the vault's clock, in seconds. The reference client allows the same. */
const CLOCK_SKEW_SECONDS = 600

/**
 * Builds the payment of scheme `exact` or `upto`, which is an EIP-3009 authorization under the token's pinned domain, or a permit of
 * Permit2 for the scheme's proxy. It has a random nonce and is valid for an hour at most. It needs no node.
 */
async function preparePayment(request: PreparePayment): Promise<PreparedPayment> {
  const { chain, assets, terms, nowMs } = request
  const from = canonicalAddress('eip155', request.account)
  const to = canonicalAddress('eip155', terms.payTo.toLowerCase())
  const token = assets.byAddress(chain, terms.asset.address)
  if (from === undefined || to === undefined || token?.eip712 === undefined)
    throw new TypeError('Expected terms that were checked.')
  const nowSeconds = Math.floor(nowMs / 1_000)
  const validBefore = nowSeconds + Math.min(terms.maxTimeoutSeconds, MAX_VALIDITY_SECONDS)
  const nonce = `0x${randomBytes(32).toString('hex')}`
  const decode = (typedData: unknown): Decoded => {
    const read = decodeTypedData({ chain, account: from, assets, typedData })
    if (!read.ok) throw new PaymentProblem('VALIDATION_ERROR', `${read.message} Nothing was signed.`)
    return Object.freeze({ ...read.decoded, kind: 'payment' })
  }
  const parties = {
    chain,
    asset: token.address,
    payer: from,
    payTo: to,
    most: terms.amountAtomic.toString(),
    validBefore: String(validBefore),
  }
  if (terms.permit2 !== undefined) {
    const { permit2Authorization, typedData } = permit2Payment(terms, { from, nonce, deadline: validBefore })
    return {
      decoded: decode(typedData),
      // Permit2 still accepts the permit in the second of its deadline.
      validBeforeMs: (validBefore + 1) * 1_000,
      claim: {
        ...parties,
        nonce: permit2Authorization.nonce,
        facilitator: terms.permit2.facilitator,
      },
      payload: ({ signature }) => ({ signature, permit2Authorization }),
    }
  }
  const authorization = {
    from,
    to,
    value: terms.amountAtomic.toString(),
    validAfter: String(nowSeconds - CLOCK_SKEW_SECONDS),
    validBefore: String(validBefore),
    nonce,
  }
  const decoded = decode({
    domain: {
      ...token.eip712,
      chainId: Number(terms.asset.network.slice('eip155:'.length)),
      verifyingContract: token.address,
    },
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message: authorization,
  })
  return {
    decoded,
    validBeforeMs: validBefore * 1_000,
    claim: { ...parties, nonce, facilitator: null },
    payload: ({ signature }) => ({ signature, authorization }),
  }
}

/**
 * The plugin of Ethereum, Base and every other EVM chain of the table. It decodes transactions, EIP-712 typed data and EIP-191
 * messages.
 */
export default chainPlugin({
  name: 'chain-evm',
  api: 1,
  family: 'eip155',
  decodeTransaction,
  decodeTypedData,
  decodeMessage,
  termsFault: evmTermsFault,
  preparePayment,
  finalBlock,
  proveCharges,
  assemble,
})

/** Maximum size of a message, in bytes. The owner has to read it. */
const MAX_BYTES = 16_384
const HASH_BYTES = 32
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes a message for `personal_sign` (EIP-191, version 0x45). Because of the prefix, the signature is not valid for a
 * transaction. But contract wallets accept signed hashes, and some software omits the prefix. So bytes that are a transaction,
 * typed data or a hash are refused, unless they are readable text.
 *
 * @see https://eips.ethereum.org/EIPS/eip-191
 */
function decodeMessage(request: MessageRequest): DecodeResult {
  const { chain, assets } = request
  const from = canonicalAddress('eip155', request.account)
  if (assets.chains.of(chain).family !== 'eip155' || from === undefined)
    throw new TypeError("Expected an EVM chain and the vault's address.")
  const bytes = messageBytes(request, MAX_BYTES)
  if (bytes === undefined)
    return no(`Expected a message of 1 to ${MAX_BYTES} bytes in the encoding that is named.`)
  const disguise = disguiseOf(bytes)
  if (disguise !== undefined)
    return no(
      `Expected a text message, got ${disguise}. Sign transactions and typed data with their own operations.`,
    )
  const effects = effectsOf(bytes)
  const decoded = finish(assets, {
    kind: 'message',
    chain,
    from,
    effects,
    fee: { amount: 0n, asset: assets.native(chain), payer: from },
    // An attacker can find a hash that is also readable text in some days.
    warnings:
      bytes.length === HASH_BYTES ? ['The text is as long as a hash. Sign it only if you can read it.'] : [],
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'evm-message',
    encoding: 'none',
  })
  return { ok: true, decoded }
}

/** What the bytes are, if they are not a message. Undefined if they are a message. */
function disguiseOf(bytes: Uint8Array): string | undefined {
  if (isPrintable(bytes)) return readTransaction(bytes).ok ? 'a transaction' : undefined
  const [first, second] = bytes
  if (bytes.length === HASH_BYTES) return 'exactly 32 bytes, which can be the hash of something else'
  if (first === 0x19 && (second === 0 || second === 1 || second === 0x45))
    return 'data with an EIP-191 prefix'
  // A legacy transaction is a list, and a typed transaction is a list after its type byte. Text is neither.
  if (isRlpList(bytes)) return 'a transaction'
  if (first! <= 0x7f && isRlpList(bytes.subarray(1))) return 'a transaction'
}

/** Every transaction has at least six fields. */
function isRlpList(bytes: Uint8Array): boolean {
  try {
    const item = toBytes(bytes)
    // The library also accepts other encodings, but a list has exactly one canonical encoding.
    return Array.isArray(item) && item.length >= 6 && Buffer.compare(fromBytes(item), bytes) === 0
  } catch {
    // The list has a length beyond its end, or lists nested deeper than the stack allows.
    return false
  }
}

function effectsOf(bytes: Uint8Array): Effect[] {
  try {
    return [{ kind: 'note', text: utf8.decode(bytes) }]
  } catch {
    return [{ kind: 'opaque', target: 'a message', reason: `signs ${bytes.length} bytes that are not text` }]
  }
}

const no = (message: string): DecodeResult => ({ ok: false, code: 'VALIDATION_ERROR', message })
