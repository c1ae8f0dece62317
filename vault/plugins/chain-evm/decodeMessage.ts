import { canonicalAddress } from '../../../core/domain/address.ts'
import { isPrintable } from '../../../core/text/visibleText.ts'
import type { MessageRequest } from '../../effects/chainPlugin.ts'
import type { DecodeResult } from '../../effects/decoded.ts'
import type { Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/finish.ts'
import { messageBytes } from '../../effects/messageBytes.ts'
import { readRlp } from './rlp.ts'
import { readTransaction } from './transaction.ts'

/** Longest message: people are to read it. */
const MAX_BYTES = 16_384
const HASH_BYTES = 32
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes a message for `personal_sign` (EIP-191, version 0x45). Its prefix keeps the signature from being one of a
 * transaction; but contract wallets take signed hashes, and other software leaves the prefix out. So bytes that are
 * a transaction, typed data or a hash are refused, unless they are a text that a person can read.
 *
 * @see https://eips.ethereum.org/EIPS/eip-191
 */
export function decodeMessage(request: MessageRequest): DecodeResult {
  const { chain, assets } = request
  const from = canonicalAddress('eip155', request.account)
  if (assets.chains.of(chain).family !== 'eip155' || from === undefined)
    throw new TypeError('Expected an EVM chain and our address.')
  const bytes = messageBytes(request, MAX_BYTES)
  if (bytes === undefined)
    return no(`Expected a message of 1 to ${MAX_BYTES} bytes in the encoding that is named.`)
  const disguise = disguiseOf(bytes)
  if (disguise !== undefined) return no(`Expected a text message, got ${disguise}. Use the route for it.`)
  const effects = effectsOf(bytes)
  const decoded = finish(assets, {
    kind: 'message',
    chain,
    from,
    effects,
    fee: { amount: 0n, asset: assets.native(chain), payer: from },
    // A hash that is a text, too, can be had for some days of search.
    warnings:
      bytes.length === HASH_BYTES
        ? ['It has as many bytes as a hash has: sign it only if you can read it.']
        : [],
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'evm-message',
    encoding: 'none',
  })
  return { ok: true, decoded }
}

/** What bytes really are, when they are no message; undefined when they are one. */
function disguiseOf(bytes: Uint8Array): string | undefined {
  if (isPrintable(bytes)) return readTransaction(bytes).ok ? 'a transaction' : undefined
  const [first, second] = bytes
  if (bytes.length === HASH_BYTES) return 'exactly 32 bytes, which can be the hash of something else'
  if (first === 0x19 && (second === 0 || second === 1 || second === 0x45))
    return 'data with an EIP-191 prefix'
  // A typed transaction is a list behind its type, a legacy one is a list: text is neither.
  if (isRlpList(bytes)) return 'a transaction'
  if (first! <= 0x7f && isRlpList(bytes.subarray(1))) return 'a transaction'
}

/** No transaction has fewer than six fields. */
function isRlpList(bytes: Uint8Array): boolean {
  if (bytes.length === 0 || bytes[0]! < 0xc0) return false
  const item = readRlp(bytes)
  return Array.isArray(item) && item.length >= 6
}

function effectsOf(bytes: Uint8Array): Effect[] {
  try {
    return [{ kind: 'note', text: utf8.decode(bytes) }]
  } catch {
    return [{ kind: 'opaque', target: 'a message', reason: `signs ${bytes.length} bytes that are no text` }]
  }
}

const no = (message: string): DecodeResult => ({ ok: false, code: 'VALIDATION_ERROR', message })
