import { readAddress } from '../../../core/solana/address.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction } from '../../../core/solana/wire.ts'
import type { MessageRequest } from '../../effects/chainPlugin.ts'
import type { DecodeResult } from '../../effects/decoded.ts'
import type { Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/finish.ts'
import { messageBytes } from '../../effects/messageBytes.ts'

/** Longest message: people are to read it. */
const MAX_BYTES = 16_384
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes a message for wallets' `signMessage`. Solana signs messages without any prefix, so a message that is a
 * transaction would be one: whatever parses as a transaction message is refused, and so is every first byte that a
 * version of transactions may have and text may not.
 */
export function decodeMessage(request: MessageRequest): DecodeResult {
  const { chain, account, assets } = request
  if (assets.chains.of(chain).family !== 'solana' || readAddress(account) === undefined)
    throw new TypeError('Expected a Solana cluster and our address.')
  const bytes = messageBytes(request, MAX_BYTES)
  if (bytes === undefined)
    return no(`Expected a message of 1 to ${MAX_BYTES} bytes in the encoding that is named.`)
  if (isTransaction(bytes)) return no('Expected a text message, got a transaction. Use the route for it.')
  const effects = effectsOf(bytes)
  const decoded = finish(assets, {
    kind: 'message',
    chain,
    from: account,
    effects,
    fee: { amount: 0n, asset: assets.native(chain), payer: account },
    warnings: [],
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'solana-message',
    encoding: 'none',
  })
  return { ok: true, decoded }
}

function isTransaction(bytes: Uint8Array): boolean {
  const first = bytes[0]!
  // 0x80 to 0xbf mark versions 0 to 63 of a message and begin no text in UTF-8.
  if (first >= 0x80 && first < 0xc0) return true
  if (readMessage(bytes) !== undefined) return true
  const wire = readWireTransaction(bytes)
  return wire !== undefined && readMessage(wire.message) !== undefined
}

function effectsOf(bytes: Uint8Array): Effect[] {
  try {
    return [{ kind: 'note', text: utf8.decode(bytes) }]
  } catch {
    return [{ kind: 'opaque', target: 'a message', reason: `signs ${bytes.length} bytes that are no text` }]
  }
}

const no = (message: string): DecodeResult => ({ ok: false, code: 'VALIDATION_ERROR', message })
